#include "share/terms.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "group_rig.hpp"

namespace dsanalyze {
namespace {

using group_protocol::parse_demands;
using group_protocol::parse_terms;
using group_protocol::to_text;
using testing::group_terms;

std::string why_refused(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

std::string changed_terms(const std::function<void(nlohmann::ordered_json&)>& change) {
  auto json = nlohmann::ordered_json::parse(to_text(group_terms(2, 3)));
  change(json);
  return why_refused([&] { parse_terms(json.dump()); });
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("terms are the same after crossing as text") {
  GroupTerms terms = group_terms(5, 9, Producers::coordinator);
  terms.seed = std::numeric_limits<std::uint64_t>::max();
  terms.staging.first_epoch = 3;
  terms.staging.first_batch = 5;
  terms.staging.held = 2;
  terms.staging.boundary = StagingBoundary::synchronised;
  const GroupTerms read = parse_terms(to_text(terms));
  CHECK(read.staging == terms.staging);
  CHECK(read.samples == terms.samples);
  CHECK(read.seed == terms.seed);
  CHECK(read.dataset_digest == terms.dataset_digest);
  CHECK(read.prep == terms.prep);
  CHECK(read.settings == terms.settings);
  CHECK(read.tensor.dtype == terms.tensor.dtype);
  CHECK(read.tensor.dimensions == 4);
  CHECK(read.tensor.shape == terms.tensor.shape);
  CHECK(read.tensor.strides == terms.tensor.strides);
}

TEST_CASE("demands are the same after crossing as text, and what is left open stays open") {
  const GroupDemands all{64, std::numeric_limits<std::uint64_t>::max(), "abc", "image"};
  const GroupDemands read = parse_demands(to_text(all));
  CHECK(read.batch_size == all.batch_size);
  CHECK(read.seed == all.seed);
  CHECK(read.dataset_digest == all.dataset_digest);
  CHECK(read.prep == all.prep);
  const GroupDemands none = parse_demands(to_text(GroupDemands{}));
  CHECK_FALSE(none.batch_size);
  CHECK_FALSE(none.seed);
  CHECK_FALSE(none.dataset_digest);
  CHECK_FALSE(none.prep);
}

TEST_CASE("terms that are not exactly terms are refused by name") {
  CHECK(changed_terms([](auto&) {}).empty());
  CHECK(mentions(changed_terms([](auto& json) { json["colour"] = 1; }), "/colour"));
  CHECK(mentions(changed_terms([](auto& json) { json.erase("seed"); }), "/seed"));
  CHECK(mentions(changed_terms([](auto& json) { json["seed"] = -1; }), "/seed"));
  CHECK(mentions(changed_terms([](auto& json) { json["staging"]["jobs"] = 65; }), "the number of jobs is 65"));
  CHECK(mentions(changed_terms([](auto& json) { json["staging"]["producers"] = "all"; }), "/staging/producers"));
  CHECK(mentions(changed_terms([](auto& json) { json["tensor"]["dtype"] = "int3"; }), "/tensor/dtype"));
  CHECK(mentions(changed_terms([](auto& json) { json["tensor"]["shape"] = {4, 2, 2}; }), "/tensor/strides"));
  CHECK(mentions(changed_terms([](auto& json) { json["tensor"]["shape"][1] = 2.5; }), "whole numbers"));
  CHECK(mentions(changed_terms([](auto& json) { json["tensor"]["strides"][0] = 13; }), "row-major"));
  CHECK(mentions(why_refused([] { parse_terms("[]"); }), "a group's terms"));
  CHECK(mentions(why_refused([] { parse_demands(R"({"batch_size": 4294967296})"); }), "/batch_size"));
  CHECK(mentions(why_refused([] { parse_demands(R"({"batch_sise": 4})"); }), "did you mean"));
}

TEST_CASE("a tensor that does not fit its batches or its slot is refused") {
  GroupTerms terms = group_terms(2, 1);
  terms.staging.batch_size = 5;
  CHECK(mentions(why_refused([&] { group_protocol::check_terms(terms); }), "the tensor has 4 samples, a batch has 5"));
  terms = group_terms(2, 1);
  terms.tensor = TensorShape::images(DType::uint8, Layout::nhwc, 4, 3, 200, 200);
  CHECK(mentions(why_refused([&] { group_protocol::check_terms(terms); }), "a slot has 4096"));
  terms.tensor.shape = {4, INT64_MAX, INT64_MAX, 3};
  CHECK(mentions(why_refused([&] { group_protocol::check_terms(terms); }), "row-major"));
  terms = group_terms(2, 1);
  terms.settings.assign(70'000, 'x');
  CHECK(mentions(why_refused([&] { group_protocol::check_terms(terms); }), "larger than 65536 bytes"));
}

TEST_CASE("a refusal names what differs, with both values, and shows no control characters") {
  const GroupTerms terms = group_terms(2, 1);
  CHECK(refusal(terms, {}).empty());
  CHECK(refusal(terms, {4, 7, "digest", "image 2 x 2, uint8, nhwc"}).empty());
  CHECK(refusal(terms, {.batch_size = 8}) == "the batch size of the group is 4, this job asks for 8");
  CHECK(refusal(terms, {.seed = 8}) == "the seed of the group is 7, this job asks for 8");
  CHECK(refusal(terms, {.dataset_digest = "other"}) == "the dataset's digest of the group is digest, this job asks for other");
  CHECK(refusal(terms, {.prep = "x\x1b[2J"}) == "the prep of the group is \"image 2 x 2, uint8, nhwc\", this job asks for \"x\\x1b[2J\"");
  CHECK(refusal(terms, {.batch_size = 8, .seed = 9}) ==
        "the batch size of the group is 4, this job asks for 8; the seed of the group is 7, this job asks for 9");
}

}  // namespace
}  // namespace dsanalyze
