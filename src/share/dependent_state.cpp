#include "dependent_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"
#include "core/dependent/sample_subset.hpp"

namespace dsanalyze {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr std::string_view format_name = "dsanalyze-dependent-group";
constexpr std::uint32_t format_version = 1;
constexpr std::uint32_t largest_generation = std::uint32_t{1} << 31U;
constexpr std::int64_t largest_batch_size = 1 << 20;
constexpr std::int64_t largest_epoch = std::int64_t{1} << 28U;

std::uint64_t checksum(std::string_view text) {
  std::uint64_t sum = text.size();
  for (std::size_t at = 0; at < text.size(); at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    sum = mix(sum, word);
  }
  return sum;
}

/// "0-3,7".
std::string ranges_text(const std::vector<SampleId>& samples) {
  std::string text;
  for (const SampleRange& range : ranges_of(samples)) {
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", range.first);
    if (range.size() > 1) fmt::format_to(std::back_inserter(text), "-{}", range.end - 1);
  }
  return text;
}

/// "3*120,4,5*7": each value, and how often it comes in a row.
std::string runs_text(const std::vector<std::uint32_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] == values[i]) ++end;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ",", values[i]);
    if (end - i > 1) fmt::format_to(std::back_inserter(text), "*{}", end - i);
    i = end;
  }
  return text;
}

struct Item {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  bool pair = false;
};

/// The items of a list of numbers and pairs of them, with commas between.
template <typename Visit>
void for_each_item(JsonObject& object, std::string_view key, char between, const Visit& visit) {
  const std::string text = object.text(key);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    Item item;
    auto read = std::from_chars(at, end, item.first);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == between) {
      item.pair = true;
      read = std::from_chars(read.ptr + 1, end, item.second);
    }
    if (read.ec != std::errc() || (read.ptr != end && *read.ptr != ',') || (read.ptr != end && read.ptr + 1 == end) || !visit(item)) {
      object.fail(key,
                  fmt::format("found \"{}\" where the list cannot have it", printable(std::string_view(at, std::min<std::size_t>(end - at, 24)))));
    }
    at = read.ptr == end ? end : read.ptr + 1;
  }
}

std::vector<std::uint32_t> read_runs(JsonObject& object, std::string_view key, std::size_t samples) {
  std::vector<std::uint32_t> values;
  for_each_item(object, key, '*', [&](const Item& item) {
    const std::size_t count = item.pair ? item.second : 1;
    if (item.first > largest_generation || count == 0 || count > samples - values.size()) return false;
    values.insert(values.end(), count, item.first);
    return true;
  });
  if (values.size() != samples) object.fail(key, fmt::format("found {} versions, expected one for each of {} samples", values.size(), samples));
  return values;
}

std::vector<SampleId> read_ranges(JsonObject& object, std::string_view key, std::size_t samples) {
  std::vector<SampleId> ids;
  for_each_item(object, key, '-', [&](const Item& item) {
    const std::uint32_t last = item.pair ? item.second : item.first;
    if (last < item.first || last >= samples || (!ids.empty() && item.first <= ids.back())) return false;
    for (std::uint32_t id = item.first; id <= last; ++id) ids.push_back(id);
    return true;
  });
  return ids;
}

/// The position's samples are of its subset, and as many as its batches leave.
void check_position(const JsonObject& object, const DependentPosition& position, std::uint32_t samples) {
  const std::vector<SampleId> subset = position.subset.empty() ? std::vector<SampleId>() : parse_subset(position.subset, samples);
  const std::uint64_t of_epoch = position.subset.empty() ? samples : subset.size();
  const std::uint64_t had = position.batch * position.batch_size;
  if (had >= of_epoch) object.fail("batch", fmt::format("found {}, expected less than all batches of {} samples", position.batch, of_epoch));
  const std::uint64_t expected = position.batch == 0 ? 0 : of_epoch - had;
  if (position.samples.size() != expected)
    object.fail("samples", fmt::format("found {} samples, expected the {} that its batches leave", position.samples.size(), expected));
  if (!subset.empty() && !std::ranges::includes(subset, position.samples)) object.fail("samples", "found samples that are not of its subset");
  if (position.epochs != 0 && position.epoch >= position.epochs + (position.batch == 0 ? 1 : 0))
    object.fail("epoch", fmt::format("found {}, expected less than all of {} epochs", position.epoch, position.epochs));
}

DependentPosition read_position(JsonObject& object, std::uint32_t samples) {
  DependentPosition position;
  position.batch_size = static_cast<std::uint32_t>(object.integer("batch_size", 1, largest_batch_size));
  position.subset = object.optional_text("subset").value_or("");
  position.epochs = static_cast<std::uint64_t>(object.integer("epochs", 0, largest_epoch));
  position.epoch = static_cast<std::uint64_t>(object.integer("epoch", 0, largest_epoch));
  position.batch = static_cast<std::uint64_t>(object.integer("batch", 0, std::numeric_limits<std::uint32_t>::max()));
  if (object.has("samples")) position.samples = read_ranges(object, "samples", samples);
  check_position(object, position, samples);
  return position;
}

StateJson position_json(const std::string& name, const DependentPosition& position) {
  StateJson json{{"name", name}, {"batch_size", position.batch_size}};
  if (!position.subset.empty()) json["subset"] = position.subset;
  json["epochs"] = position.epochs;
  json["epoch"] = position.epoch;
  json["batch"] = position.batch;
  if (!position.samples.empty()) json["samples"] = ranges_text(position.samples);
  return json;
}

/// What follows the first line, when that says so.
std::string_view body_of(std::string_view text, const std::string& source) {
  const auto refuse = [&](std::string_view why) { throw UsageError(fmt::format("{}: {}", printable(source), why)); };
  const std::string_view line = text.substr(0, std::min(text.find('\n'), std::size_t{100}));
  if (!line.starts_with(format_name)) refuse("found no state of a dependent group: `dsanalyze share --share dependent --save-state FILE` writes one");
  const std::string_view body = text.substr(std::min(line.size() + 1, text.size()));
  const std::string version = fmt::format("{} {} ", format_name, format_version);
  if (!line.starts_with(version))
    refuse(
        fmt::format("found \"{}\", expected version {} of it: resume with the version of dsanalyze that saved it", printable(line), format_version));
  std::uint64_t sum = 0;
  std::uint64_t bytes = 0;
  const char* const end = line.data() + line.size();
  auto read = std::from_chars(line.data() + version.size(), end, sum, 16);
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == ' ') read = std::from_chars(read.ptr + 1, end, bytes);
  if (read.ec != std::errc() || read.ptr != end) refuse("found a first line that makes no sense");
  if (body.size() != bytes) refuse(fmt::format("found {} bytes behind its first line, expected {}: it is not whole", body.size(), bytes));
  if (checksum(body) != sum) refuse("its checksum does not fit: it was changed, or damaged");
  return body;
}

void require_same_group(const DependentState& state, std::uint64_t samples, const GroupTerms& terms, const std::string& source) {
  const auto differ = [&](std::string_view what, const std::string& was, const std::string& is, const std::string& remedy) {
    throw UsageError(
        fmt::format("{}: {} of the saved group is {}, of this one {}: {}", printable(source), what, printable(was), printable(is), remedy));
  };
  if (state.dataset_digest != terms.dataset_digest || samples != terms.samples) {
    differ("the dataset", fmt::format("{} with {} samples", state.dataset_digest, samples),
           fmt::format("{} with {} samples", terms.dataset_digest, terms.samples), "resume with the dataset that it was saved with");
  }
  if (state.prep != terms.prep) differ("the prep", state.prep, terms.prep, "resume with the same options of prep");
  if (state.seed != terms.seed) differ("the seed", std::to_string(state.seed), std::to_string(terms.seed), fmt::format("pass --seed {}", state.seed));
}

}  // namespace

bool is_job_name(std::string_view name) {
  const bool plain = std::ranges::none_of(name, [](char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f; });
  return !name.empty() && name.size() <= most_job_name && plain;
}

void require_job_name(std::string_view name) {
  if (is_job_name(name)) return;
  throw UsageError(fmt::format("a job's name: found \"{}\", expected 1 to {} bytes without control characters",
                               printable(name.substr(0, most_job_name)), most_job_name));
}

std::string to_text(const DependentState& state) {
  StateJson jobs = StateJson::array();
  for (const auto& [name, position] : state.jobs) jobs.push_back(position_json(name, position));
  const StateJson json{
      {"dataset_digest", state.dataset_digest}, {"samples", state.group.generations.size()},      {"prep", state.prep},     {"seed", state.seed},
      {"random", state.group.random},           {"versions", runs_text(state.group.generations)}, {"jobs", std::move(jobs)}};
  const std::string body = json.dump(1, ' ', false, StateJson::error_handler_t::replace) + "\n";
  return fmt::format("{} {} {:016x} {}\n{}", format_name, format_version, checksum(body), body.size(), body);
}

DependentState parse_dependent_state(std::string_view text, const std::string& source, const GroupTerms& terms) {
  JsonObject root = parse_json_object(body_of(text, source), source);
  DependentState state;
  state.dataset_digest = root.text("dataset_digest");
  state.prep = root.text("prep");
  state.seed = root.unsigned_integer("seed");
  state.group.random = root.unsigned_integer("random");
  require_same_group(state, root.unsigned_integer("samples"), terms, source);
  const auto samples = static_cast<std::uint32_t>(terms.samples);
  state.group.generations = read_runs(root, "versions", samples);
  for (JsonObject& job : root.objects("jobs")) {
    const std::string name = job.text("name");
    require_job_name(name);
    if (std::ranges::find(state.jobs, name, &DependentPositions::value_type::first) != state.jobs.end())
      job.fail("name", fmt::format("found \"{}\" a second time", printable(name)));
    if (state.jobs.size() == most_positions) root.fail("jobs", fmt::format("found more than {} jobs", most_positions));
    state.jobs.emplace_back(name, read_position(job, samples));
  }
  root.finish();
  return state;
}

}  // namespace dsanalyze
