#include "share/dependent_state.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <string>

#include "../base/texts.hpp"
#include "base/random.hpp"
#include "group_rig.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

GroupTerms terms_of_28() { return group_terms(1, 3); }

DependentState some_state() {
  DependentState state;
  const GroupTerms terms = terms_of_28();
  state.dataset_digest = terms.dataset_digest;
  state.prep = terms.prep;
  state.seed = terms.seed;
  state.group.random = 0xfedcba9876543210;
  state.group.generations.assign(28, 3);
  state.group.generations[5] = 4;
  state.group.generations[27] = 0;
  state.jobs.emplace_back("fast \"one\"", DependentPosition{4, "", 5, 2, 5, {0, 1, 2, 9, 10, 11, 20, 27}});
  state.jobs.emplace_back("at an epoch's begin", DependentPosition{8, "50%", 0, 7, 0, {}});
  state.jobs.emplace_back("part", DependentPosition{3, "4-9", 9, 0, 1, {4, 6, 9}});
  return state;
}

std::string refusal_of(std::string_view text, const GroupTerms& terms = terms_of_28()) {
  try {
    static_cast<void>(parse_dependent_state(text, "state", terms));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

/// A file with this body whose first line fits.
std::string with_first_line(std::string_view body) {
  std::uint64_t sum = body.size();
  for (std::size_t at = 0; at < body.size(); at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, body.data() + at, std::min(sizeof word, body.size() - at));
    sum = mix(sum, word);
  }
  return fmt::format("dsanalyze-dependent-group 1 {:016x} {}\n{}", sum, body.size(), body);
}

/// some_state() as text, with one thing another.
std::string changed(std::string_view from, std::string_view to) {
  const std::string text = to_text(some_state());
  std::string body = text.substr(text.find('\n') + 1);
  const std::size_t at = body.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  body.replace(at, from.size(), to);
  return with_first_line(body);
}

TEST_CASE("a group's state is the same after it was written and read") {
  const DependentState state = some_state();
  const std::string text = to_text(state);
  CHECK(text == with_first_line(text.substr(text.find('\n') + 1)));
  const DependentState read = parse_dependent_state(text, "state", terms_of_28());
  CHECK(to_text(read) == text);
  CHECK(read.group.random == state.group.random);
  CHECK(read.group.generations == state.group.generations);
  REQUIRE(read.jobs.size() == 3);
  CHECK(read.jobs[0].first == "fast \"one\"");
  CHECK(read.jobs[0].second.samples == state.jobs[0].second.samples);
  CHECK(read.jobs[1].second.subset == "50%");
  CHECK(read.jobs[1].second.epoch == 7);
  CHECK(read.jobs[2].second.batch == 1);
}

TEST_CASE("a state that was cut off or changed anywhere is refused") {
  const std::string text = to_text(some_state());
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(refusal_of(std::string_view(text).substr(0, size)).empty());
  }
  RandomStream random(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ static_cast<char>(1 + random.below(255)));
    CHECK_FALSE(refusal_of(other).empty());
  }
  CHECK(says(refusal_of(text + "{}"), "it is not whole"));
  CHECK(says(refusal_of(text.substr(0, text.size() - 9)), "it is not whole"));
}

TEST_CASE("what is no state of this group is refused with what differs") {
  CHECK(says(refusal_of(""), "found no state of a dependent group"));
  CHECK(says(refusal_of("{\"a\": 1}"), "found no state of a dependent group"));
  CHECK(says(refusal_of(std::string(1000, '\0')), "found no state of a dependent group"));
  CHECK(says(refusal_of("dsanalyze-dependent-group 2 0 0\n"), "expected version 1"));
  CHECK(says(refusal_of("dsanalyze-dependent-group 1 x\n"), "makes no sense"));
  CHECK(says(refusal_of("dsanalyze-dependent-group 1 0 99999999999999999999\n"), "makes no sense"));
  const std::string text = to_text(some_state());
  GroupTerms other = terms_of_28();
  other.dataset_digest = "another";
  CHECK(says(refusal_of(text, other), "the dataset of the saved group is digest with 28 samples, of this one another"));
  other = terms_of_28();
  other.samples = 29;
  CHECK(says(refusal_of(text, other), "with 29 samples"));
  other = terms_of_28();
  other.seed = 8;
  CHECK(says(refusal_of(text, other), "pass --seed 7"));
  other = terms_of_28();
  other.prep = "image 4 x 4";
  CHECK(says(refusal_of(text, other), "the prep of the saved group is image 2 x 2"));
}

TEST_CASE("values that cannot be are refused by name, whatever the checksum says") {
  const auto refused = [](std::string_view from, std::string_view to, std::string_view word) {
    CAPTURE(to);
    const std::string message = refusal_of(changed(from, to));
    CHECK_MESSAGE(says(message, word), message);
  };
  refused("\"3*5,4,3*21,0\"", "\"3*5,4,3*21\"", "found 27 versions");
  refused("\"3*5,4,3*21,0\"", "\"3*4000000000\"", "versions");
  refused("\"3*5,4,3*21,0\"", "\"3*0,4\"", "versions");
  refused("\"3*5,4,3*21,0\"", "\"4294967295*28\"", "versions");
  refused("\"3*5,4,3*21,0\"", "\"3*28,\"", "versions");
  refused("\"3*5,4,3*21,0\"", "\"3*5;4\"", "versions");
  refused("\"0-2,9-11,20,27\"", "\"0-2,9-11,20,28\"", "/samples");
  refused("\"0-2,9-11,20,27\"", "\"0-2,9-11,27,20\"", "/samples");
  refused("\"0-2,9-11,20,27\"", "\"2-0,9-11,20,27\"", "/samples");
  refused("\"0-2,9-11,20,27\"", "\"0-2,2-4,20,27\"", "/samples");
  refused("\"0-2,9-11,20,27\"", "\"0-2,9-11,20\"", "expected the 8 that its batches leave");
  refused("\"0-2,9-11,20,27\"", "\"0-4294967295\"", "/samples");
  refused("\"4,6,9\"", "\"4,6,10\"", "not of its subset");
  refused("\"4-9\"", "\"40-90\"", "no sample number below 28");
  refused("\"batch\": 5", "\"batch\": 7", "/batch");
  refused("\"batch\": 5", "\"batch\": 4294967295", "/batch");
  refused("\"batch\": 5", "\"batch\": -1", "/batch");
  refused("\"epoch\": 2", "\"epoch\": 5", "less than all of 5 epochs");
  refused("\"batch_size\": 4", "\"batch_size\": 0", "/batch_size");
  refused("\"batch_size\": 4", "\"batch_size\": 9999999", "/batch_size");
  refused("\"name\": \"part\"", "\"name\": \"fast \\\"one\\\"\"", "a second time");
  refused("\"name\": \"part\"", "\"name\": \"a\\u0007\"", "without control characters");
  refused("\"name\": \"part\"", "\"name\": \"\"", "a job's name");
  refused("\"name\": \"part\"", "\"mane\": \"part\"", "name");
  refused("\"seed\"", "\"sede\"", "seed");
  refused("\"jobs\": [", "\"jobs\": [7, ", "/jobs");
  std::string many = "\"jobs\": [";
  for (int job = 0; job < 200; ++job) many += fmt::format(R"({{"name": "{}", "batch_size": 4, "epochs": 0, "epoch": 1, "batch": 0}},)", job);
  refused("\"jobs\": [", many, "more than 128 jobs");
}

}  // namespace
}  // namespace dsanalyze
