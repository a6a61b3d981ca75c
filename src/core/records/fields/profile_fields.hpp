#pragma once

#include "attached_fields.hpp"
#include "core/records/result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<RateRecord> {
  using R = RateRecord;
  static void check(const JsonObject& object, const R& record);
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s),
                                   field("bytes_per_s", &R::bytes_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("windows", &R::windows),
                                   field("void_windows", &R::void_windows).newer(),
                                   field("method", &R::method),
                                   field("shared_windows", &R::shared_windows).omitted(),
                                   field("cache_fraction", &R::cache_fraction).in(0, 1).omitted()};
};

template <>
struct Fields<HostRecord> {
  using R = HostRecord;
  static constexpr std::tuple list{
      field("cpu_model", &R::cpu_model),
      field("cores", &R::cores),
      field("cores_online", &R::cores_online),
      field("cores_physical", &R::cores_physical).newer().not_null(),
      field("memory_bytes", &R::memory_bytes),
      field("memory_total_bytes", &R::memory_total_bytes),
      field("kernel", &R::kernel),
      field("cgroup_version", &R::cgroup_version),
      group("storage", field("device", &R::storage_device), field("filesystem", &R::storage_filesystem), field("meter", &R::storage_meter)),
      group("accelerator", field("description", &R::accelerator), field("shares_cores", &R::accelerator_shares_cores).newer()),
      field("calibration_passes_per_s", &R::calibration_passes_per_s).in(std::numeric_limits<double>::min(), most_number).omitted()};
};

template <>
struct Fields<DatasetRecord> {
  using R = DatasetRecord;
  static Json index_digest(const R& record) { return record.digest; }
  static void check(const JsonObject& object, const R& record);
  static constexpr std::tuple list{field("path", &R::path),
                                   field("format", &R::format),
                                   field("samples", &R::samples),
                                   field("bytes", &R::bytes),
                                   field("mean_sample_bytes", &R::mean_sample_bytes).in(0, most_record_bytes),
                                   field("digest", &R::digest),
                                   derived("index_digest", &index_digest),
                                   field("content_sample_digest", &R::content_sample_digest),
                                   field("sizes_sampled", &R::sizes_sampled),
                                   field("subset_samples", &R::subset_samples),
                                   field("subset_bytes", &R::subset_bytes)};
};

template <>
struct Fields<EpochRecord> {
  using R = EpochRecord;
  // Every sample is a hit or a miss. Of several jobs, older records have zeros for what was not known.
  static void check(const JsonObject& /*object*/, R& record) {
    if (record.samples > 0 && record.cache_hits == 0U && record.cache_misses == 0U)
      record.requested_bytes = record.cache_hits = record.cache_misses = {};
  }
  static constexpr std::tuple list{field("epoch", &R::epoch),
                                   field("seconds", &R::seconds),
                                   field("samples", &R::samples),
                                   field("storage_bytes", &R::storage_bytes),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("cache_hits", &R::cache_hits),
                                   field("cache_misses", &R::cache_misses),
                                   field("peer_hits", &R::peer_hits).newer(),
                                   field("peer_bytes", &R::peer_bytes).newer(),
                                   field("digest", &R::digest)};
};

template <>
struct Fields<TimelineRecord> {
  using R = TimelineRecord;
  static constexpr std::tuple list{field("t_seconds", &R::t_seconds), field("cpu_fraction", &R::cpu_fraction),
                                   field("memory_bytes", &R::memory_bytes), field("storage_bytes_per_s", &R::storage_bytes_per_s),
                                   field("cache_hit_fraction", &R::cache_hit_fraction).in(0, 1)};
};

template <>
struct Fields<OperatorRecord> {
  using R = OperatorRecord;
  static constexpr std::tuple list{field("name", &R::name), field("fraction", &R::fraction).in(0, 1 + 1e-9),
                                   field("seconds_per_sample", &R::seconds_per_sample).omitted()};
};

template <>
struct Fields<DistributionRecord> {
  using R = DistributionRecord;
  static void write_quantiles(Json& object, const R& record) { object["quantiles"] = record.quantiles; }
  static void read_quantiles(JsonObject& object, R& record);
  static constexpr std::tuple list{field("mean", &R::mean), field("count", &R::count), custom(&write_quantiles, &read_quantiles),
                                   field("deviation", &R::deviation)};
};

template <>
struct Fields<FailureRecord> {
  using R = FailureRecord;
  static constexpr std::tuple list{field("cause", &R::cause), field("count", &R::count), field("example", &R::example)};
};

template <>
struct Fields<BackgroundLoad::Process> {
  using R = BackgroundLoad::Process;
  static constexpr std::tuple list{field("pid", &R::pid), field("command", &R::command), field("cpu_fraction", &R::cpu_fraction)};
};

template <>
struct Fields<BackgroundLoad> {
  using R = BackgroundLoad;
  static constexpr std::tuple list{field("cpu_fraction", &R::cpu_fraction).in(0, 1), field("processes", &R::processes)};
};

template <>
struct Fields<FetchedRecord> {
  using R = FetchedRecord;
  static constexpr std::tuple list{field("requested_bytes", &R::requested_bytes), field("cache_hits", &R::cache_hits),
                                   field("cache_misses", &R::cache_misses)};
};

template <>
struct Fields<AcceleratorUtilisation> {
  using R = AcceleratorUtilisation;
  static constexpr std::tuple list{
      field("value", &R::value), field("compute_seconds", &R::compute_seconds), field("total_seconds", &R::total_seconds),
      field("steps", &R::steps), field("accelerators", &R::accelerators),       field("formula", &R::formula)};
};

template <>
struct Fields<RunRecord> {
  using R = RunRecord;
  static constexpr std::tuple list{field("name", &R::name),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("epoch_seconds", &R::epoch_seconds),
                                   field("seconds", &R::seconds),
                                   field("storage_bytes", &R::storage_bytes),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("cache_hits", &R::cache_hits),
                                   field("cache_misses", &R::cache_misses),
                                   field("samples", &R::samples),
                                   field("samples_failed", &R::samples_failed),
                                   field("first_batch_seconds", &R::first_batch_seconds),
                                   field("stall_p50_seconds", &R::stall_p50_seconds),
                                   field("stall_p99_seconds", &R::stall_p99_seconds),
                                   field("stall_epoch_boundary_seconds", &R::stall_epoch_boundary_seconds),
                                   field("prefetch_batches", &R::prefetch_batches),
                                   field("fetch_concurrency", &R::fetch_concurrency),
                                   field("fetch_places", &R::fetch_places),
                                   field("windows", &R::windows).newer().not_null(),
                                   field("void_windows", &R::void_windows).newer().not_null(),
                                   field("slot_bytes", &R::slot_bytes),
                                   field("failures", &R::failures).newer().not_null(),
                                   field("prep_operators", &R::prep_operators),
                                   field("epochs", &R::epochs),
                                   field("timeline", &R::timeline),
                                   field("storage_proof", &R::storage_proof).omitted().not_null(),
                                   field("cores_used", &R::cores_used).omitted(),
                                   field("device_use_fraction", &R::device_use_fraction).omitted(),
                                   field("storage_wait_fraction", &R::storage_wait_fraction).omitted(),
                                   field("beyond_epochs", &R::beyond_epochs).omitted(),
                                   field("shared_windows", &R::shared_windows).omitted().not_null(),
                                   field("others", &R::others).omitted(),
                                   field("stall_seconds", &R::stall_seconds).omitted(),
                                   field("mlperf_storage_au", &R::mlperf_storage_au).omitted(),
                                   field("training", &R::training).omitted()};
};

template <>
struct Fields<OrderRecord> {
  using R = OrderRecord;
  static constexpr std::tuple list{field("kind", &R::kind).one_of(enum_names<OrderKind>),
                                   field("shuffle_buffer_samples", &R::shuffle_buffer),
                                   field("readers", &R::readers),
                                   field("mean_displacement", &R::mean_displacement),
                                   field("rank_correlation", &R::rank_correlation).in(-1.1, 1.1),
                                   field("neighbours", &R::neighbours).in(0, 1),
                                   field("batch_files", &R::batch_files)};
};

// Shares are differences of measured times: noise may carry one a little below 0 or above 1.
template <>
struct Fields<StallRecord> {
  using R = StallRecord;
  static constexpr std::tuple list{field("seconds_per_epoch", &R::seconds_per_epoch).any_sign(), field("fraction", &R::fraction).in(-1, 2),
                                   field("ci95_fraction", &R::ci95_fraction).any_sign()};
};

template <>
struct Fields<BottleneckRecord> {
  using R = BottleneckRecord;
  static constexpr std::tuple list{field("resource", &R::resource).one_of(enum_names<Resource>), field("detail", &R::detail),
                                   field("confident", &R::confident), field("reason", &R::reason), field("next", &R::next)};
};

template <>
struct Fields<CorePoint> {
  using R = CorePoint;
  static constexpr std::tuple list{field("cores", &R::cores), field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s).omitted()};
};

template <>
struct Fields<FeedPoint> {
  using R = FeedPoint;
  static constexpr std::tuple list{field("feed", &R::feed), field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s)};
};

template <>
struct Fields<PrepServersRecord> {
  using R = PrepServersRecord;
  static constexpr std::tuple list{field("cpu_samples_per_s", &R::cpu_samples_per_s),
                                   field("gpu_samples_per_s", &R::gpu_samples_per_s),
                                   field("cores", &R::cores),
                                   field("gpu_core_seconds_per_sample", &R::gpu_core_seconds_per_sample),
                                   field("crop_seconds_per_sample", &R::crop_seconds_per_sample),
                                   field("left_to_cpu_fraction", &R::left_to_cpu_fraction).in(0, 1),
                                   field("decoder", &R::decoder)};
};

template <>
struct Fields<TransferPoint> {
  using R = TransferPoint;
  static constexpr std::tuple list{field("copy_bytes", &R::copy_bytes).in(0, most_record_bytes), field("streams", &R::streams),
                                   field("pinned", &R::pinned), field("bytes_per_s", &R::bytes_per_s),
                                   field("ci95_bytes_per_s", &R::ci95_bytes_per_s).omitted()};
};

template <>
struct Fields<StoragePoint> {
  using R = StoragePoint;
  static constexpr std::tuple list{field("request_bytes", &R::request_bytes).in(0, most_record_bytes), field("concurrency", &R::concurrency),
                                   field("bytes_per_s", &R::bytes_per_s)};
};

template <>
struct Fields<ProfileResult::Distributions> {
  using R = ProfileResult::Distributions;
  static constexpr std::tuple list{field("sample_bytes", &R::sample_bytes), field("prep_seconds", &R::prep_seconds),
                                   field("request_seconds", &R::request_seconds)};
};

template <>
struct Fields<ProfileResult::Stalls> {
  using R = ProfileResult::Stalls;
  static constexpr std::tuple list{field("compute", &R::compute), field("prep", &R::prep), field("fetch", &R::fetch),
                                   field("contention", &R::contention).omitted(), field("interference", &R::interference).omitted()};
};

template <>
struct Fields<ProfileResult::Observed> {
  using R = ProfileResult::Observed;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s), field("unused_fraction", &R::unused_fraction).any_sign()};
};

template <>
struct Fields<ProfileResult> {
  using R = ProfileResult;
  static void write_start(Json& object, const R& record);
  static void read_start(JsonObject& object, R& record);
  /// Epochs tell of peers where there are ranks.
  static void write_runs(Json& object, const R& record);
  static void read_runs(JsonObject& object, R& record);
  static void check(const JsonObject& object, const R& record);
  static constexpr std::tuple list{SchemaField{"dsanalyze.profile/1", "dsanalyze profile"},
                                   field("tool", &R::tool),
                                   custom(&write_start, &read_start),
                                   field("host", &R::host),
                                   field("settings", &R::settings),
                                   field("dataset", &R::dataset),
                                   group("rates", field("G", &R::ingestion), field("P", &R::prep), field("C", &R::cache), field("S", &R::storage),
                                         field("N", &R::network).omitted(), field("H", &R::transfer).omitted(), field("F", &R::fetch)),
                                   group("curves", field("P_by_cores", &R::prep_by_cores), field("S_by_request", &R::storage_by_request),
                                         field("P_by_workers", &R::prep_by_workers).omitted(), field("P_by_server", &R::prep_servers).omitted(),
                                         field("H_by_copy", &R::transfer_by_copy).omitted(), field("H_by_feed", &R::transfer_by_feed).omitted()),
                                   field("distributions", &R::distributions).newer(),
                                   field("order", &R::order),
                                   custom(&write_runs, &read_runs),
                                   field("sharing", &R::sharing).omitted(),
                                   field("jobs", &R::jobs).omitted(),
                                   field("trials", &R::trials).omitted(),
                                   field("partition", &R::partition).omitted(),
                                   field("ranks", &R::ranks).omitted(),
                                   field("command", &R::command).omitted(),
                                   field("loader", &R::loader).omitted(),
                                   field("waits", &R::waits).omitted(),
                                   field("launch", &R::launch).omitted(),
                                   field("fix", &R::fix).omitted(),
                                   field("reads", &R::reads).omitted(),
                                   field("predicted_steady", &R::predicted_steady).omitted(),
                                   field("own_prep", &R::own_prep).omitted(),
                                   field("script_costs", &R::script_costs).omitted(),
                                   field("hot", &R::hot).omitted(),
                                   field("stalls", &R::stalls),
                                   field("attained", &R::attained).omitted(),
                                   field("bottleneck", &R::bottleneck),
                                   field("observed", &R::observed),
                                   field("advice", &R::advice),
                                   field("findings", &R::findings),
                                   field("trusted", &R::trusted)};
};

}  // namespace dsanalyze
