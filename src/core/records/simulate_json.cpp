#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/records/fields/simulate_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {
namespace {

/// Of so many epochs.
Json counts_json(const AccessCounts& counts, std::uint64_t epochs, Bytes dataset_bytes) {
  return {{"accesses", counts.accesses},
          {"hits", counts.hits},
          {"misses", counts.misses()},
          {"miss_fraction", counts.miss_share()},
          {"accessed_bytes", counts.bytes},
          {"read_bytes", counts.bytes_missed},
          {"read_amplification", read_amplification(counts.bytes_missed, epochs, dataset_bytes)}};
}

Json epochs_json(const std::vector<EpochCounts>& epochs, Bytes dataset_bytes) {
  Json list = Json::array();
  for (const EpochCounts& epoch : epochs) {
    Json item = {{"epoch", epoch.epoch}};
    item.update(counts_json(epoch.counts, 1, dataset_bytes));
    list.push_back(std::move(item));
  }
  return list;
}

Json case_json(const CaseCounts& counts, Bytes dataset_bytes) {
  const auto later = later_epochs(counts);
  Json item = {{"policy", replay_policy_name(counts.cache.policy)},
               {"cache_bytes", counts.cache.capacity},
               {"cache_fraction", static_cast<double>(counts.cache.capacity) / static_cast<double>(std::max<Bytes>(dataset_bytes, 1))},
               {"items_held", counts.items_held},
               {"held_bytes", counts.bytes_held},
               {"later_epochs", later ? counts_json(*later, later_epoch_count(counts), dataset_bytes) : Json(nullptr)},
               {"epochs", epochs_json(counts.epochs, dataset_bytes)},
               {"jobs", Json::array()}};
  for (std::size_t job = 0; job < counts.jobs.size(); ++job)
    item["jobs"].push_back({{"job", job}, {"epochs", epochs_json(counts.jobs[job], dataset_bytes)}});
  return item;
}

std::uint64_t read_count(JsonObject& object, const char* key) { return static_cast<std::uint64_t>(object.integer(key, 0, most_integer)); }

EpochCounts read_epoch_counts(JsonObject& object) {
  EpochCounts epoch{static_cast<std::uint32_t>(object.integer("epoch", 0, std::numeric_limits<std::uint32_t>::max())), {}};
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
  counts.cache.policy = object.named<ReplayPolicy>("policy");
  counts.cache.capacity = read_count(object, "cache_bytes");
  counts.items_held = read_count(object, "items_held");
  counts.bytes_held = read_count(object, "held_bytes");
  for (JsonObject& job : object.objects("jobs")) counts.jobs.push_back(read_epochs(job));
  counts.add_up();
  if (read_epochs(object) != counts.epochs) object.fail("epochs", "found other counts than those of /jobs together");
  return counts;
}

}  // namespace

std::optional<AccessCounts> later_epochs(const CaseCounts& counts) {
  if (later_epoch_count(counts) == 0) return std::nullopt;
  AccessCounts sum;
  for (const EpochCounts& epoch : counts.epochs) {
    if (epoch.epoch != counts.epochs.front().epoch) sum.add(epoch.counts);
  }
  return sum;
}

std::uint64_t later_epoch_count(const CaseCounts& counts) { return counts.epochs.empty() ? 0 : counts.epochs.size() - 1; }

double read_amplification(Bytes bytes_read, std::uint64_t epochs, Bytes dataset_bytes) {
  if (epochs == 0 || dataset_bytes == 0) return 0;
  return static_cast<double>(bytes_read) / (static_cast<double>(epochs) * static_cast<double>(dataset_bytes));
}

void RateOrEndless::write(Json& object, const PipelineTimes& times) const {
  object[key] = std::isfinite(times.*rate) ? Json(times.*rate) : Json(nullptr);
}

void RateOrEndless::read(JsonObject& object, PipelineTimes& times) const {
  times.*rate = object.raw(key).is_null() ? std::numeric_limits<double>::infinity() : object.number(key, 0, most_number);
}

void Fields<SimulateResult>::write_recorded(Json& object, const SimulateResult& result) {
  object["recorded"] = result.recorded ? case_json(*result.recorded, result.dataset_bytes) : Json(nullptr);
}

void Fields<SimulateResult>::read_recorded(JsonObject& object, SimulateResult& result) {
  if (auto recorded = object.optional_object("recorded")) result.recorded = read_case(*recorded);
}

void Fields<SimulateResult>::write_cases(Json& object, const SimulateResult& result) {
  Json cases = Json::array();
  for (std::size_t i = 0; i < result.cases.size(); ++i) {
    Json item = case_json(result.cases[i], result.dataset_bytes);
    if (i < result.times.size()) item["pipeline"] = value_json(result.times[i]);
    cases.push_back(std::move(item));
  }
  object["cases"] = std::move(cases);
}

void Fields<SimulateResult>::read_cases(JsonObject& object, SimulateResult& result) {
  for (JsonObject& each : object.objects("cases")) {
    result.cases.push_back(read_case(each));
    // Where one case tells its time, all do, or say that they have none.
    if (each.has("pipeline") != !result.times.empty() && result.cases.size() > 1)
      each.fail("pipeline", "expected it, or null, in every case or in none");
    if (!each.has("pipeline")) continue;
    auto times = each.optional_object("pipeline");
    result.times.push_back(times ? std::optional(read_record<PipelineTimes>(*times)) : std::nullopt);
  }
}

void Fields<SimulateResult>::check(JsonObject& object, const SimulateResult& result) {
  const bool scenario = object.object("source").choice("from", {"scenario", "trace"}) == "scenario";
  if (result.cases.empty() != result.draws.has_value()) object.fail("cases", "expected at least one cache, and none of a trace of draws");
  if (scenario != result.orders.has_value()) object.fail("orders", "expected them for a scenario, and null for a trace");
}

std::string to_json(const SimulateResult& result) { return document_text(record_json(result)); }

SimulateResult simulate_from_json(std::string_view text, const std::string& source) {
  return record_from_json<SimulateResult>(text, source, UnknownKeys::ignored);
}

}  // namespace dsanalyze
