#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "core/trace/access_trace.hpp"
#include "scenario.hpp"
#include "sourced_json.hpp"

namespace dsanalyze {
namespace {

constexpr std::int64_t most_samples = std::numeric_limits<std::uint32_t>::max() - 1;
constexpr std::int64_t most_epochs = 10'000;
constexpr std::int64_t most_signed_32_bits = std::numeric_limits<std::int32_t>::max();

template <typename Number>
void read_if_given(JsonObject& object, std::string_view key, Number& value, std::int64_t low, std::int64_t high) {
  if (object.has(key)) value = static_cast<Number>(object.integer(key, low, high));
}

void read_dataset(JsonObject object, Scenario& scenario) {
  if (object.has("preset")) {
    scenario.preset = object.text("preset");
    read_if_given(object, "samples", scenario.samples, 1, most_samples);
    return;
  }
  DatasetSpec& dataset = scenario.dataset;
  dataset.name = scenario.name;
  dataset.labels = 1;
  dataset.samples = static_cast<std::uint64_t>(object.integer("samples", 1, most_samples));
  dataset.mean_sample_bytes = static_cast<Bytes>(object.integer("mean_sample_bytes", 1, 1'000'000'000'000));
  if (object.has("sample_bytes_deviation")) dataset.sample_bytes_deviation = object.number("sample_bytes_deviation", 0, 10);
}

void read_order(JsonObject object, Scenario& scenario) {
  scenario.order.kind = object.named<OrderKind>("kind");
  if (scenario.order.kind == OrderKind::random) return;
  read_if_given(object, "shuffle_buffer_samples", scenario.order.shuffle_buffer, 0, most_signed_32_bits);
  if (scenario.order.kind != OrderKind::shards) return;
  read_if_given(object, "readers", scenario.order.readers, 1, 1024);
  read_if_given(object, "shard_samples", scenario.shard_samples, 1, most_samples);
}

/// A list of the root's of at least one text, each of which `parse` understands.
template <typename Value, typename Parse>
std::vector<Value> read_list(JsonObject& root, const std::string& source, std::string_view key, Parse parse) {
  const nlohmann::ordered_json& list = root.raw(key);
  if (!list.is_array() || list.empty()) root.fail(key, "expected a list of at least one text");
  std::vector<Value> values;
  for (std::size_t i = 0; i < list.size(); ++i) {
    try {
      if (!list[i].is_string()) throw UsageError(fmt::format("found {}, expected a text", list[i].dump()));
      values.push_back(parse(list[i].get<std::string>()));
    } catch (const Error& error) {
      throw UsageError(fmt::format("{}: /{}/{}: {}", source, key, i, error.what()));
    }
  }
  return values;
}

Scenario::Pipeline read_pipeline(JsonObject object) {
  constexpr double least_rate = 1e-3;
  constexpr double most_rate = 1e9;
  Scenario::Pipeline pipeline;
  JsonObject prep = object.object("prep");
  pipeline.cores = static_cast<int>(prep.integer("cores", 1, 4096));
  pipeline.prep_rate_per_core = prep.number("samples_per_s_per_core", least_rate, most_rate);
  JsonObject accelerators = object.object("accelerators");
  read_if_given(accelerators, "count", pipeline.accelerators, 1, 1024);
  pipeline.accelerator_rate = accelerators.number("samples_per_s", least_rate, most_rate);
  read_if_given(object, "batch_size", pipeline.batch_size, 1, 65'536);
  return pipeline;
}

void check_pipeline(const JsonObject& root, const Scenario& scenario) {
  const auto require = [&root](bool holds, const char* what) {
    if (!holds) root.fail("pipeline", what);
  };
  require(!scenario.storage.empty(), "found without /storage, expected the device that misses are read from");
  require(scenario.jobs == 1, "found with several /jobs, expected one: only one job's time is simulated");
  require(scenario.unit_bytes == 1, "found with /unit_bytes, expected items of their own size");
  require(scenario.epochs > 1, "found with one epoch, expected 2 /epochs or more: the first fills the cache");
}

ByteAmount read_cache_size(const std::string& text) {
  const ByteAmount amount = parse_byte_amount(text);
  const bool none = amount.kind == ByteAmount::Kind::bytes ? amount.bytes == 0 : amount.fraction == 0;
  if (none) throw UsageError(fmt::format("found '{}', expected a size above 0 (the policy none has no cache)", text));
  return amount;
}

}  // namespace

Scenario parse_scenario(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  Scenario scenario;
  scenario.name = read_name(root);
  scenario.description = root.text("description");
  scenario.source = root.text("source");
  read_dataset(root.object("dataset"), scenario);
  if (root.has("order")) read_order(root.object("order"), scenario);
  read_if_given(root, "jobs", scenario.jobs, 1, most_replay_jobs);
  if (root.has("job_orders")) scenario.job_orders = root.named<Scenario::JobOrders>("job_orders");
  if (root.has("stagger_fraction")) scenario.stagger = root.number("stagger_fraction", 0, 1000);
  read_if_given(root, "turn_samples", scenario.turn_samples, 1, most_signed_32_bits);
  read_if_given(root, "epochs", scenario.epochs, 1, most_epochs);
  read_if_given(root, "unit_bytes", scenario.unit_bytes, 1, std::int64_t{1} << 30);
  if (root.has("seed")) scenario.seed = root.unsigned_integer("seed");
  if (root.has("storage")) scenario.storage = root.text("storage");
  scenario.policies = read_list<ReplayPolicy>(root, source, "policies", parse_replay_policy);
  scenario.cache_sizes = read_list<ByteAmount>(root, source, "cache_sizes", read_cache_size);
  const bool cost_aware = std::ranges::find(scenario.policies, ReplayPolicy::minio_cost_aware) != scenario.policies.end();
  if (cost_aware && scenario.storage.empty())
    root.fail("policies", "found minio:cost-aware, expected /storage with it: what a read costs decides what it admits");
  if (root.has("pipeline")) scenario.pipeline = read_pipeline(root.object("pipeline"));
  if (scenario.pipeline) check_pipeline(root, scenario);
  root.finish();
  return scenario;
}

}  // namespace dsanalyze
