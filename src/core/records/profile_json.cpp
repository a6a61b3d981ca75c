#include "result_json.hpp"

namespace dsanalyze {
namespace {

Json host_json(const HostRecord& host) {
  Json object = {{"cpu_model", host.cpu_model},
                 {"cores", host.cores},
                 {"cores_online", host.cores_online},
                 {"cores_physical", host.cores_physical},
                 {"memory_bytes", host.memory_bytes},
                 {"memory_total_bytes", host.memory_total_bytes},
                 {"kernel", host.kernel},
                 {"cgroup_version", host.cgroup_version},
                 {"storage", {{"device", host.storage_device}, {"filesystem", host.storage_filesystem}, {"meter", host.storage_meter}}},
                 {"accelerator", {{"description", host.accelerator}, {"shares_cores", host.accelerator_shares_cores}}}};
  add_if_known(object, "calibration_passes_per_s", host.calibration_passes_per_s);
  return object;
}

Json dataset_json(const DatasetRecord& dataset) {
  return {{"path", dataset.path},
          {"format", dataset.format},
          {"samples", dataset.samples},
          {"bytes", dataset.bytes},
          {"mean_sample_bytes", dataset.mean_sample_bytes},
          {"digest", dataset.digest},
          {"index_digest", dataset.digest},
          {"content_sample_digest", or_null(dataset.content_sample_digest)},
          {"sizes_sampled", dataset.sizes_sampled},
          {"subset_samples", dataset.subset_samples},
          {"subset_bytes", dataset.subset_bytes}};
}

Json rate_json(const std::optional<RateRecord>& rate) {
  if (!rate) return nullptr;
  Json object = {{"samples_per_s", rate->samples_per_s},
                 {"bytes_per_s", rate->bytes_per_s},
                 {"ci95_samples_per_s", interval_json(rate->ci95_samples_per_s)},
                 {"windows", rate->windows},
                 {"void_windows", rate->void_windows},
                 {"method", rate->method}};
  if (rate->shared_windows > 0) object["shared_windows"] = rate->shared_windows;
  add_if_known(object, "cache_fraction", rate->cache_fraction);
  return object;
}

Json curves_json(const ProfileResult& result) {
  Json by_cores = Json::array();
  for (const CorePoint& point : result.prep_by_cores) {
    Json object = {{"cores", point.cores}, {"samples_per_s", point.samples_per_s}};
    if (point.ci95_samples_per_s) object["ci95_samples_per_s"] = interval_json(*point.ci95_samples_per_s);
    by_cores.push_back(object);
  }
  Json by_request = Json::array();
  for (const StoragePoint& point : result.storage_by_request) {
    by_request.push_back({{"request_bytes", point.request_bytes}, {"concurrency", point.concurrency}, {"bytes_per_s", point.bytes_per_s}});
  }
  return {{"P_by_cores", by_cores}, {"S_by_request", by_request}};
}

Json distribution_json(const std::optional<DistributionRecord>& distribution) {
  if (!distribution) return nullptr;
  return {{"mean", distribution->mean},
          {"count", distribution->count},
          {"quantiles", distribution->quantiles},
          {"deviation", or_null(distribution->deviation)}};
}

Json distributions_json(const ProfileResult::Distributions& distributions) {
  return {{"sample_bytes", distribution_json(distributions.sample_bytes)},
          {"prep_seconds", distribution_json(distributions.prep_seconds)},
          {"request_seconds", distribution_json(distributions.request_seconds)}};
}

Json utilisation_json(const AcceleratorUtilisation& au) {
  return {{"value", au.value}, {"compute_seconds", au.compute_seconds}, {"total_seconds", au.total_seconds},
          {"steps", au.steps}, {"accelerators", au.accelerators},       {"formula", au.formula}};
}

Json operator_json(const OperatorRecord& each) {
  Json object = {{"name", each.name}, {"fraction", each.fraction}};
  add_if_known(object, "seconds_per_sample", each.seconds_per_sample);
  return object;
}

/// The rates of one server as they ever were; N beside them where there is one.
Json rates_json(const ProfileResult& result) {
  Json rates = {{"G", rate_json(result.ingestion)}, {"P", rate_json(result.prep)}, {"C", rate_json(result.cache)}, {"S", rate_json(result.storage)}};
  if (result.network) rates["N"] = rate_json(result.network);
  rates["F"] = rate_json(result.fetch);
  return rates;
}

enum class Peers { none, some };

Json epoch_json(const EpochRecord& epoch, Peers peers) {
  Json object = {{"epoch", epoch.epoch},
                 {"seconds", epoch.seconds},
                 {"samples", epoch.samples},
                 {"storage_bytes", or_null(epoch.storage_bytes)},
                 {"requested_bytes", or_null(epoch.requested_bytes)},
                 {"cache_hits", or_null(epoch.cache_hits)},
                 {"cache_misses", or_null(epoch.cache_misses)}};
  if (peers == Peers::some) {
    object["peer_hits"] = epoch.peer_hits;
    object["peer_bytes"] = epoch.peer_bytes;
  }
  object["digest"] = epoch.digest;
  return object;
}

Json load_json(const BackgroundLoad& load) {
  Json object = {{"cpu_fraction", load.cpu_fraction}, {"processes", Json::array()}};
  for (const auto& each : load.processes)
    object["processes"].push_back({{"pid", each.pid}, {"command", each.command}, {"cpu_fraction", each.cpu_fraction}});
  return object;
}

Json fetched_json(const FetchedRecord& fetched) {
  return {{"requested_bytes", fetched.requested_bytes}, {"cache_hits", fetched.cache_hits}, {"cache_misses", fetched.cache_misses}};
}

Json run_json(const RunRecord& run, Peers peers) {
  Json object = {{"name", run.name},
                 {"samples_per_s", run.samples_per_s},
                 {"ci95_samples_per_s", interval_json(run.ci95_samples_per_s)},
                 {"epoch_seconds", run.epoch_seconds},
                 {"seconds", run.seconds},
                 {"storage_bytes", or_null(run.storage_bytes)},
                 {"requested_bytes", run.requested_bytes},
                 {"cache_hits", run.cache_hits},
                 {"cache_misses", run.cache_misses},
                 {"samples", run.samples},
                 {"samples_failed", run.samples_failed},
                 {"first_batch_seconds", run.first_batch_seconds},
                 {"stall_p50_seconds", run.stall_p50_seconds},
                 {"stall_p99_seconds", run.stall_p99_seconds},
                 {"stall_epoch_boundary_seconds", run.stall_epoch_boundary_seconds},
                 {"prefetch_batches", run.prefetch_batches},
                 {"fetch_concurrency", run.fetch_concurrency},
                 {"fetch_places", run.fetch_places},
                 {"windows", run.windows},
                 {"void_windows", run.void_windows},
                 {"slot_bytes", run.slot_bytes},
                 {"failures", Json::array()},
                 {"prep_operators", Json::array()},
                 {"epochs", Json::array()},
                 {"timeline", Json::array()}};
  if (run.storage_proof) object["storage_proof"] = storage_proof_names[static_cast<std::size_t>(*run.storage_proof)];
  for (const FailureRecord& each : run.failures) {
    object["failures"].push_back({{"cause", each.cause}, {"count", each.count}, {"example", each.example}});
  }
  for (const OperatorRecord& each : run.prep_operators) object["prep_operators"].push_back(operator_json(each));
  if (run.beyond_epochs) object["beyond_epochs"] = fetched_json(*run.beyond_epochs);
  if (run.shared_windows > 0) object["shared_windows"] = run.shared_windows;
  if (run.others) object["others"] = load_json(*run.others);
  if (run.stall_seconds) object["stall_seconds"] = distribution_json(run.stall_seconds);
  if (run.mlperf_storage_au) object["mlperf_storage_au"] = utilisation_json(*run.mlperf_storage_au);
  if (run.training) object["training"] = training_json(*run.training);
  for (const EpochRecord& each : run.epochs) object["epochs"].push_back(epoch_json(each, peers));
  for (const TimelineRecord& each : run.timeline) {
    object["timeline"].push_back({{"t_seconds", each.t_seconds},
                                  {"cpu_fraction", each.cpu_fraction},
                                  {"memory_bytes", each.memory_bytes},
                                  {"storage_bytes_per_s", each.storage_bytes_per_s},
                                  {"cache_hit_fraction", each.cache_hit_fraction}});
  }
  return object;
}

Json order_json(const std::optional<OrderRecord>& order) {
  if (!order) return nullptr;
  return {{"kind", order->kind},
          {"shuffle_buffer_samples", order->shuffle_buffer},
          {"readers", order->readers},
          {"mean_displacement", order->mean_displacement},
          {"rank_correlation", order->rank_correlation},
          {"neighbours", order->neighbours},
          {"batch_files", order->batch_files}};
}

Json stall_json(const StallRecord& stall) {
  return {{"seconds_per_epoch", stall.seconds_per_epoch}, {"fraction", stall.fraction}, {"ci95_fraction", interval_json(stall.ci95_fraction)}};
}

Json stalls_json(const std::optional<ProfileResult::Stalls>& stalls) {
  if (!stalls) return nullptr;
  Json object = {{"compute", stall_json(stalls->compute)}, {"prep", stall_json(stalls->prep)}, {"fetch", stall_json(stalls->fetch)}};
  if (stalls->interference) object["interference"] = stall_json(*stalls->interference);
  return object;
}

Json bottleneck_json(const std::optional<BottleneckRecord>& bottleneck) {
  if (!bottleneck) return nullptr;
  return {{"resource", bottleneck->resource},
          {"detail", bottleneck->detail},
          {"confident", bottleneck->confident},
          {"reason", bottleneck->reason},
          {"next", bottleneck->next}};
}

}  // namespace

std::string to_json(const ProfileResult& result) {
  Json document = {{"schema", "dsanalyze.profile/1"},
                   {"tool", tool_json(result.tool)},
                   {"started_utc", result.started_utc.empty() ? Json(nullptr) : Json(result.started_utc)},
                   {"host", host_json(result.host)},
                   {"settings", settings_json(result.settings)},
                   {"dataset", dataset_json(result.dataset)},
                   {"rates", rates_json(result)},
                   {"curves", curves_json(result)},
                   {"distributions", distributions_json(result.distributions)},
                   {"order", order_json(result.order)},
                   {"runs", Json::array()}};
  for (const RunRecord& run : result.runs) document["runs"].push_back(run_json(run, result.ranks.empty() ? Peers::none : Peers::some));
  add_jobs(document, result);
  add_ranks(document, result);
  document["stalls"] = stalls_json(result.stalls);
  if (result.attained) document["attained"] = attained_json(*result.attained);
  document["bottleneck"] = bottleneck_json(result.bottleneck);
  document["observed"] = nullptr;
  if (result.observed) {
    document["observed"] = {{"samples_per_s", result.observed->samples_per_s}, {"unused_fraction", result.observed->unused_fraction}};
  }
  document["advice"] = advice_json(result.advice);
  document["findings"] = findings_json(result.findings);
  document["trusted"] = result.trusted;
  return document_text(document);
}

}  // namespace dsanalyze
