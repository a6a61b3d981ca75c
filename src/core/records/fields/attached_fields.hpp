#pragma once

#include <limits>

#include "core/records/attached_record.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<StepSamplesRecord> {
  using R = StepSamplesRecord;
  static constexpr std::tuple list{field("least", &R::least), field("mean", &R::mean), field("most", &R::most)};
};

template <>
struct Fields<DeviceCopyRecord> {
  using R = DeviceCopyRecord;
  static constexpr std::tuple list{field("bytes", &R::bytes), field("seconds", &R::seconds), field("pinned", &R::pinned)};
};

template <>
struct Fields<LoaderRecord> {
  using R = LoaderRecord;
  static constexpr std::tuple list{field("name", &R::name),
                                   field("version", &R::version),
                                   field("dataset_class", &R::dataset_class),
                                   field("workers", &R::workers),
                                   field("prefetch", &R::prefetch),
                                   field("pin_memory", &R::pin_memory),
                                   field("persistent", &R::persistent),
                                   field("made_anew", &R::made_anew).omitted(),
                                   field("batch_size", &R::batch_size),
                                   field("batches", &R::batches),
                                   field("samples", &R::samples),
                                   field("style", &R::style),
                                   field("file", &R::file),
                                   field("line", &R::line),
                                   field("samples_per_step", &R::samples_per_step).omitted(),
                                   field("tokens_per_sample", &R::tokens_per_sample).omitted(),
                                   field("device_copy", &R::device_copy).omitted()};
};

template <>
struct Fields<WaitRecord> {
  using R = WaitRecord;
  static constexpr std::tuple list{field("seconds_per_step", &R::seconds_per_step).any_sign(), field("fraction", &R::fraction).in(-1, 2)};
};

template <>
struct Fields<RankWaitsRecord> {
  using R = RankWaitsRecord;
  static constexpr std::tuple list{field("rank", &R::rank),           field("data", &R::data),
                                   field("ranks", &R::ranks),         field("compute", &R::compute),
                                   field("outside", &R::outside),     field("cores", &R::cores).omitted(),
                                   field("cpus", &R::cpus).omitted(), field("supply_seconds_per_step", &R::supply_seconds_per_step).omitted()};
};

template <>
struct Fields<BetweenEpochsRecord> {
  using R = BetweenEpochsRecord;
  static constexpr std::tuple list{field("epochs", &R::epochs),
                                   field("seconds", &R::seconds),
                                   field("data_seconds", &R::data_seconds),
                                   field("validation_seconds", &R::validation_seconds),
                                   field("outside_seconds", &R::outside_seconds),
                                   field("first_batch_seconds", &R::first_batch_seconds).omitted(),
                                   field("sampler_seconds", &R::sampler_seconds).omitted(),
                                   field("steps", &R::steps)};
};

template <>
struct Fields<WaitsRecord> {
  using R = WaitsRecord;
  static constexpr std::tuple list{field("step_seconds", &R::step_seconds),
                                   field("data_p99_seconds", &R::data_p99_seconds),
                                   field("data", &R::data),
                                   field("ranks", &R::ranks),
                                   field("compute", &R::compute),
                                   field("outside", &R::outside),
                                   field("validation", &R::validation),
                                   field("unexplained", &R::unexplained),
                                   field("sampler", &R::sampler).omitted(),
                                   field("between_epochs", &R::between_epochs),
                                   field("delaying_rank", &R::delaying_rank),
                                   field("by_rank", &R::by_rank)};
};

template <>
struct Fields<ReadsRecord> {
  using R = ReadsRecord;
  static constexpr std::tuple list{field("files", &R::files),
                                   field("file_bytes", &R::file_bytes),
                                   field("bytes", &R::bytes),
                                   field("requests", &R::requests),
                                   field("opens", &R::opens),
                                   field("seconds", &R::seconds),
                                   field("samples", &R::samples),
                                   field("bytes_per_sample", &R::bytes_per_sample),
                                   field("requests_per_sample", &R::requests_per_sample),
                                   field("mean_request_bytes", &R::mean_request_bytes),
                                   field("ordered_fraction", &R::ordered_fraction).in(0, 1),
                                   field("mapped_files", &R::mapped_files),
                                   field("mapped_bytes", &R::mapped_bytes),
                                   field("network_bytes", &R::network_bytes).omitted(),
                                   field("dataset_bytes", &R::dataset_bytes).omitted(),
                                   field("dataset_path", &R::dataset_path).omitted(),
                                   field("page_cache_bytes", &R::page_cache_bytes).omitted()};
};

template <>
struct Fields<StageRecord> {
  using R = StageRecord;
  static constexpr std::tuple list{field("name", &R::name), field("file", &R::file), field("line", &R::line),
                                   field("fraction", &R::fraction).in(0, 1), field("ci95_fraction", &R::ci95_fraction).omitted()};
};

template <>
struct Fields<SteadyRecord> {
  using R = SteadyRecord;
  static constexpr std::tuple list{field("miss_fraction", &R::miss_fraction).in(0, 1), field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s).any_sign(), field("fetch_stall", &R::fetch_stall).in(0, 1)};
};

template <>
struct Fields<OwnPrepRecord> {
  using R = OwnPrepRecord;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("threads", &R::threads),
                                   field("crop_size", &R::crop_size),
                                   field("crop", &R::crop),
                                   field("images", &R::images),
                                   field("left_out", &R::left_out).omitted()};
};

template <>
struct Fields<ScriptCostRecord> {
  using R = ScriptCostRecord;
  static constexpr std::tuple list{field("what", &R::what),
                                   field("file", &R::file),
                                   field("line", &R::line),
                                   field("count", &R::count),
                                   field("seconds_each", &R::seconds_each),
                                   field("fraction", &R::fraction).in(0, 1),
                                   field("waited_fraction", &R::waited_fraction).in(0, 1),
                                   field("workers", &R::workers),
                                   field("training_samples_per_s", &R::training_samples_per_s)};
};

template <>
struct Fields<WorkerPoint> {
  using R = WorkerPoint;
  static constexpr std::tuple list{field("workers", &R::workers),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("main_thread_seconds_per_sample", &R::main_thread_seconds_per_sample),
                                   field("process_seconds_per_sample", &R::process_seconds_per_sample).omitted(),
                                   field("workers_seconds_per_sample", &R::workers_seconds_per_sample).omitted(),
                                   field("take_over_seconds_per_sample", &R::take_over_seconds_per_sample).omitted(),
                                   field("start_seconds", &R::start_seconds).omitted()};
};

template <>
struct Fields<CommandPathRecord> {
  using R = CommandPathRecord;
  static constexpr std::tuple list{field("path", &R::path), field("kind", &R::kind), field("digest", &R::digest)};
};

template <>
struct Fields<LaunchRecord> {
  using R = LaunchRecord;
  static constexpr std::tuple list{field("working_directory", &R::working_directory), field("paths", &R::paths),
                                   field("first_step_seconds", &R::first_step_seconds),
                                   field("cores", &R::cores).in(1, std::numeric_limits<int>::max())};
};

template <>
struct Fields<FixRecord> {
  using R = FixRecord;
  static constexpr std::tuple list{field("workers", &R::workers),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s).any_sign(),
                                   field("speedup", &R::speedup),
                                   field("next", &R::next),
                                   field("too_close", &R::too_close),
                                   field("check", &R::check),
                                   field("check_seconds", &R::check_seconds)};
};

}  // namespace dsanalyze
