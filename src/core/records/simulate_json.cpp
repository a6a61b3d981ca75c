#include <algorithm>
#include <cmath>

#include "result_json.hpp"
#include "simulate_result.hpp"

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

Json rate_json(double samples_per_s) { return std::isfinite(samples_per_s) ? Json(samples_per_s) : Json(nullptr); }

Json times_json(const PipelineTimes& times) {
  return {{"samples_per_s", times.samples_per_s},
          {"epoch_seconds", times.epoch_seconds},
          {"first_batch_seconds", times.first_batch_seconds},
          {"stall_p50_seconds", times.stall_p50_seconds},
          {"stall_p99_seconds", times.stall_p99_seconds},
          {"boundary_stall_seconds", times.boundary_stall_seconds},
          {"F", rate_json(times.fetch)},
          {"P", rate_json(times.prep)},
          {"G", rate_json(times.ingestion)},
          {"stalls", {{"prep", times.prep_stall}, {"fetch", times.fetch_stall}}},
          {"bottleneck", times.bottleneck},
          {"too_close", times.too_close}};
}

Json orders_json(const SimulatedOrders& orders) {
  return {{"order", orders.order},
          {"shuffle_buffer_samples", orders.shuffle_buffer},
          {"readers", orders.readers},
          {"job_orders", orders.job_orders},
          {"stagger_fraction", orders.stagger},
          {"turn_samples", orders.turn_samples},
          {"unit_bytes", orders.unit_bytes},
          {"seed", orders.seed}};
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

std::string to_json(const SimulateResult& result) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json document = {{"schema", "dsanalyze.simulate/1"},
                   {"tool", tool_json(result.tool)},
                   {"source",
                    {{"from", result.orders ? "scenario" : "trace"},
                     {"path", result.source},
                     {"name", text_or_null(result.name)},
                     {"description", text_or_null(result.description)}}},
                   {"dataset", {{"samples", result.samples}, {"bytes", result.dataset_bytes}, {"digest", text_or_null(result.digest)}}},
                   {"jobs", result.jobs},
                   {"accesses", result.accesses},
                   {"orders", result.orders ? orders_json(*result.orders) : Json(nullptr)},
                   {"recorded", result.recorded ? case_json(*result.recorded, result.dataset_bytes) : Json(nullptr)},
                   {"cases", Json::array()}};
  for (std::size_t i = 0; i < result.cases.size(); ++i) {
    Json item = case_json(result.cases[i], result.dataset_bytes);
    if (i < result.times.size()) item["pipeline"] = result.times[i] ? times_json(*result.times[i]) : Json(nullptr);
    document["cases"].push_back(std::move(item));
  }
  document["findings"] = findings_json(result.findings);
  return document_text(document);
}

}  // namespace dsanalyze
