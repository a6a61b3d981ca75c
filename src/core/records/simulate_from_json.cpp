#include <fmt/format.h>

#include <limits>

#include "result_json.hpp"
#include "simulate_result.hpp"

namespace dsanalyze {
namespace {

constexpr std::int64_t most_32_bits = std::numeric_limits<std::uint32_t>::max();

std::uint32_t read_32_bits(JsonObject& object, std::string_view key) { return static_cast<std::uint32_t>(object.integer(key, 0, most_32_bits)); }

EpochCounts read_epoch_counts(JsonObject& object) {
  EpochCounts epoch{read_32_bits(object, "epoch"), {}};
  AccessCounts& counts = epoch.counts;
  counts.accesses = read_count(object, "accesses");
  counts.hits = read_count(object, "hits");
  if (counts.hits > counts.accesses) object.fail("hits", fmt::format("found {}, expected at most /accesses ({})", counts.hits, counts.accesses));
  const std::uint64_t misses = read_count(object, "misses");
  if (misses != counts.misses()) object.fail("misses", fmt::format("found {}, expected /accesses less /hits ({})", misses, counts.misses()));
  counts.bytes = read_count(object, "accessed_bytes");
  counts.bytes_missed = read_count(object, "read_bytes");
  return epoch;
}

std::vector<EpochCounts> read_epochs(JsonObject object) {
  std::vector<EpochCounts> epochs;
  for (JsonObject& each : object.objects("epochs")) {
    epochs.push_back(read_epoch_counts(each));
    if (epochs.size() > 1 && epochs[epochs.size() - 2].epoch >= epochs.back().epoch)
      each.fail("epoch", fmt::format("found {}, expected the epochs' numbers to rise", epochs.back().epoch));
  }
  return epochs;
}

CaseCounts read_case(JsonObject object) {
  CaseCounts counts;
  counts.cache.policy = parse_replay_policy(object.choice("policy", replay_policy_names()));
  counts.cache.capacity = read_count(object, "cache_bytes");
  counts.items_held = read_count(object, "items_held");
  counts.bytes_held = read_count(object, "held_bytes");
  for (JsonObject& job : object.objects("jobs")) counts.jobs.push_back(read_epochs(job));
  counts.add_up();
  if (read_epochs(object) != counts.epochs) object.fail("epochs", "found other counts than those of /jobs together");
  return counts;
}

/// null: it takes no time.
double read_rate_or_endless(JsonObject& object, std::string_view key) {
  return object.raw(key).is_null() ? std::numeric_limits<double>::infinity() : object.number(key, 0, most_number);
}

PipelineTimes read_times(JsonObject object) {
  PipelineTimes times;
  times.samples_per_s = object.number("samples_per_s", 0, most_number);
  times.epoch_seconds = object.number("epoch_seconds", 0, most_number);
  times.first_batch_seconds = object.number("first_batch_seconds", 0, most_number);
  times.stall_p50_seconds = object.number("stall_p50_seconds", 0, most_number);
  times.stall_p99_seconds = object.number("stall_p99_seconds", 0, most_number);
  times.boundary_stall_seconds = object.number("boundary_stall_seconds", 0, most_number);
  times.fetch = read_rate_or_endless(object, "F");
  times.prep = read_rate_or_endless(object, "P");
  times.ingestion = read_rate_or_endless(object, "G");
  JsonObject stalls = object.object("stalls");
  times.prep_stall = stalls.number("prep", -most_number, most_number);
  times.fetch_stall = stalls.number("fetch", -most_number, most_number);
  times.bottleneck = read_resource(object, "bottleneck");
  times.too_close = object.boolean("too_close");
  return times;
}

SimulatedOrders read_orders(JsonObject object) {
  SimulatedOrders orders;
  orders.order = object.choice("order", {"random", "sequential", "shards"});
  orders.shuffle_buffer = read_32_bits(object, "shuffle_buffer_samples");
  orders.readers = read_32_bits(object, "readers");
  orders.job_orders = object.choice("job_orders", {"own", "same"});
  orders.stagger = object.number("stagger_fraction", 0, most_number);
  orders.turn_samples = read_32_bits(object, "turn_samples");
  orders.unit_bytes = read_count(object, "unit_bytes");
  orders.seed = object.unsigned_integer("seed");
  return orders;
}

}  // namespace

SimulateResult simulate_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  require_schema(root, "dsanalyze.simulate/1", "dsanalyze simulate");
  SimulateResult result;
  result.tool = read_tool(root.object("tool"));
  JsonObject origin = root.object("source");
  const bool scenario = origin.choice("from", {"scenario", "trace"}) == "scenario";
  result.source = origin.text("path");
  result.name = origin.optional_text("name").value_or("");
  result.description = origin.optional_text("description").value_or("");
  JsonObject dataset = root.object("dataset");
  result.samples = read_count(dataset, "samples");
  result.dataset_bytes = read_count(dataset, "bytes");
  result.digest = dataset.optional_text("digest").value_or("");
  result.jobs = read_32_bits(root, "jobs");
  result.accesses = read_count(root, "accesses");
  if (auto orders = root.optional_object("orders")) result.orders = read_orders(*orders);
  if (scenario != result.orders.has_value()) root.fail("orders", "expected them for a scenario, and null for a trace");
  if (auto recorded = root.optional_object("recorded")) result.recorded = read_case(*recorded);
  for (JsonObject& each : root.objects("cases")) {
    result.cases.push_back(read_case(each));
    // Where one case tells its time, all do, or say that they have none.
    if (each.has("pipeline") != !result.times.empty() && result.cases.size() > 1)
      each.fail("pipeline", "expected it, or null, in every case or in none");
    if (!each.has("pipeline")) continue;
    auto times = each.optional_object("pipeline");
    result.times.push_back(times ? std::optional(read_times(*times)) : std::nullopt);
  }
  if (result.cases.empty()) root.fail("cases", "found an empty list, expected at least one cache");
  result.findings = read_findings(root);
  return result;
}

}  // namespace dsanalyze
