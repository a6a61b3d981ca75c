#pragma once

#include <array>

#include "core/records/jobs_record.hpp"
#include "core/records/settings.hpp"
#include "fields.hpp"

namespace dsanalyze {

/// Of a job and of a trial.
inline constexpr auto job_ends = names_of_values<JobEnd::finished, JobEnd::stopped, JobEnd::died, JobEnd::refused>;

template <>
struct Fields<JobEpochRecord> {
  using R = JobEpochRecord;
  static constexpr std::tuple list{field("epoch", &R::epoch),
                                   field("seconds", &R::seconds),
                                   field("samples", &R::samples),
                                   field("digest", &R::digest),
                                   field("samples_prepared", &R::samples_prepared),
                                   field("cache_hits", &R::cache_hits),
                                   field("cache_misses", &R::cache_misses),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("storage_bytes", &R::storage_bytes)};
};

template <>
struct Fields<JobRecord> {
  using R = JobRecord;
  static constexpr std::tuple list{field("job", &R::job),
                                   field("end", &R::end).one_of(job_ends),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("epoch_seconds", &R::epoch_seconds),
                                   field("seconds", &R::seconds),
                                   field("samples", &R::samples),
                                   field("samples_failed", &R::samples_failed),
                                   field("samples_prepared", &R::samples_prepared),
                                   field("cache_hits", &R::cache_hits),
                                   field("cache_misses", &R::cache_misses),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("storage_bytes", &R::storage_bytes),
                                   field("first_batch_seconds", &R::first_batch_seconds),
                                   field("stall_fraction", &R::stall_fraction).in(0, 1),
                                   field("epochs", &R::epochs),
                                   field("training", &R::training).omitted(),
                                   field("batch_copy_cpu_seconds", &R::batch_copy_cpu_seconds).omitted(),
                                   field("trial", &R::trial).omitted(),
                                   field("speed", &R::speed).omitted()};
};

template <>
struct Fields<ShareDependentRecord> {
  using R = ShareDependentRecord;
  static constexpr std::tuple list{field("rounds", &R::rounds),
                                   field("samples_drawn", &R::samples_drawn),
                                   field("samples_prepared", &R::samples_prepared),
                                   field("samples_from_store", &R::samples_from_store),
                                   field("policy", &R::policy).one_of(enum_names<StagingPolicy>),
                                   field("store_samples", &R::store_samples),
                                   field("samples_in_flight", &R::samples_in_flight),
                                   field("store_bytes", &R::store_bytes)};
};

template <>
struct Fields<FastestJobRecord> {
  using R = FastestJobRecord;
  static constexpr std::tuple list{field("job", &R::job), field("samples_drawn", &R::samples_drawn),
                                   field("preparations_per_sample", &R::preparations_per_sample),
                                   field("independent_per_sample", &R::independent_per_sample)};
};

template <>
struct Fields<SharingRecord> {
  using R = SharingRecord;
  static constexpr std::tuple list{field("share", &R::share).one_of(profile_sharings),
                                   field("producers", &R::producers).one_of(enum_names<Producers>),
                                   field("jobs", &R::jobs),
                                   field("samples_prepared", &R::samples_prepared),
                                   field("preparations_per_sample", &R::preparations_per_sample),
                                   field("prefetch_batches", &R::prefetch_batches),
                                   field("staged_batches", &R::staged_batches),
                                   field("staged_bytes", &R::staged_bytes),
                                   field("shared_bytes", &R::shared_bytes),
                                   field("taken_over_batches", &R::taken_over_batches),
                                   field("late_reports", &R::late_reports),
                                   field("departures", &R::departures),
                                   field("handover_seconds_per_batch", &R::handover_seconds_per_batch),
                                   field("dependent", &R::dependent).omitted(),
                                   field("fastest", &R::fastest).omitted()};
};

template <>
struct Fields<SearchTrialRecord> {
  using R = SearchTrialRecord;
  static constexpr std::array judges = {"loss", "samples_per_s"};
  static constexpr std::tuple list{field("trial", &R::trial),
                                   field("job", &R::job),
                                   field("epochs", &R::epochs),
                                   field("seconds", &R::seconds),
                                   field("judged_by", &R::judged_by).one_of(judges),
                                   field("value", &R::value),
                                   field("end", &R::end).one_of(job_ends)};
};

template <>
struct Fields<TrainingRecord::StepLoss> {
  using R = TrainingRecord::StepLoss;
  static constexpr std::tuple list{field("step", &R::step), field("loss", &R::loss)};
};

template <>
struct Fields<TrainingRecord::EpochLoss> {
  using R = TrainingRecord::EpochLoss;
  static constexpr std::tuple list{field("epoch", &R::epoch), field("samples", &R::samples), field("loss", &R::loss)};
};

template <>
struct Fields<TrainingRecord> {
  using R = TrainingRecord;
  static constexpr std::int64_t most = std::numeric_limits<int>::max();
  static constexpr std::tuple list{field("precision", &R::precision).one_of(enum_names<Precision>),
                                   field("inputs", &R::inputs).in(0, most),
                                   field("hidden", &R::hidden).in(0, most),
                                   field("classes", &R::classes).in(0, most),
                                   field("parameters", &R::parameters),
                                   field("learning_rate", &R::learning_rate),
                                   field("momentum", &R::momentum).in(0, 1),
                                   field("steps", &R::steps),
                                   field("loss_by_step", &R::by_step),
                                   field("loss_by_epoch", &R::by_epoch)};
};

}  // namespace dsanalyze
