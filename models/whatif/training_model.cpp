#include "training_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "training_supply.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

constexpr double least_loss = 0.02;

const RateRecord& measured_rate(const std::optional<RateRecord>& rate, const char* letter) {
  if (!rate || rate->samples_per_s <= 0)
    throw UsageError(
        fmt::format("the profile of this training has no {}: its phases were not all measured (see its findings). Profile it again, "
                    "with a longer --time-budget where steps are long",
                    letter));
  return *rate;
}

/// P by workers, and the CPU time that they took.
void take_prep(const ProfileResult& profile, const RateRecord& prep, TrainingModel& model) {
  const WorkerPoint* own = nullptr;
  const WorkerPoint* first_with_workers = nullptr;
  for (const WorkerPoint& point : profile.prep_by_workers) {
    if (point.samples_per_s <= 0) continue;
    model.prep.push_back({point.workers, point.samples_per_s, half_width(point.ci95_samples_per_s, point.samples_per_s),
                          point.workers > 0 ? point.workers_seconds_per_sample : std::nullopt});
    if (!point.workers_seconds_per_sample) continue;
    // Workers that wait for a core need no more of it; the fewest that were measured are the least disturbed.
    if (point.workers > 0 && first_with_workers == nullptr) {
      first_with_workers = &point;
      model.worker_cpu = point.workers_seconds_per_sample;
    }
    if (own == nullptr || point.workers == model.workers) own = &point;
  }
  if (model.prep.empty()) model.prep.push_back({model.workers, prep.samples_per_s, half_width(prep.ci95_samples_per_s, prep.samples_per_s)});
  std::ranges::sort(model.prep, {}, &TrainingModel::Point::workers);
  const auto alike = [](const TrainingModel::Point& left, const TrainingModel::Point& right) { return left.workers == right.workers; };
  model.prep.erase(std::unique(model.prep.begin(), model.prep.end(), alike), model.prep.end());
  if (own != nullptr && own->workers == 0) {
    // The process prepares: all but nothing of its time is taking over. What it costs to take a batch from a worker was measured with some.
    if (!model.worker_cpu) model.worker_cpu = own->process_seconds_per_sample.value_or(0);
    own = first_with_workers;
  }
  if (own == nullptr) return;
  model.thread_cpu = std::min(own->main_thread_seconds_per_sample.value_or(0), own->process_seconds_per_sample.value_or(0));
  model.take_over = std::max(model.thread_cpu, own->take_over_seconds_per_sample.value_or(0));
}

/// No more workers are advised than were tried with success, or than have something to do.
std::optional<int> most_workers_of(const ProfileResult& profile, const TrainingModel& model) {
  std::optional<int> most;
  const int tried = std::max(model.prep.back().workers, 1);
  if (profile.finds("drain-failed")) most = tried;
  if (const auto batches = profile.loader->batches; batches && static_cast<double>(*batches) < most_extrapolation * tried)
    most = std::max(static_cast<int>(*batches), 1);
  if (profile.finds("workers-repeat")) most = std::max(model.workers, 1);
  return most;
}

}  // namespace

double half_width(const Interval& interval, double value) { return value > 0 ? std::clamp((interval.high - interval.low) / 2 / value, 0.0, 1.0) : 0; }

TrainingModel training_model(const ProfileResult& profile) {
  const RunRecord* const full = profile.run("full");
  if (profile.command.empty() || !profile.loader) throw UsageError("the profile is not of a launched training");
  const RateRecord& prep = measured_rate(profile.prep, "P");
  const RateRecord& ingestion = measured_rate(profile.ingestion, "G");
  if (full == nullptr || full->samples_per_s <= 0 || !profile.waits)
    throw UsageError(
        "the profile does not say what the steps of this training wait for (see its findings), so nothing can be said of a change to its loader");
  if (!(profile.waits->step_seconds > 0)) throw UsageError("/waits/step_seconds: found 0, expected the time of a step: profile the command again");
  if (profile.loader->style == LoaderRecord::Style::watched)
    throw UsageError(
        "how the iterable that the script watches prepares its batches is not known, so nothing can be said of a change to it. A DataLoader is "
        "predicted");
  TrainingModel model;
  model.ranks = std::max(profile.settings.accelerators, 1);
  model.workers = profile.loader->workers;
  model.cores = std::max(profile.launch ? profile.launch->cores.value_or(profile.host.cores) : profile.host.cores, 1.0);
  model.prefetch = profile.loader->prefetch.value_or(model.prefetch);
  model.slice_seconds = slice_on(profile.host.cores_online);
  take_prep(profile, prep, model);
  model.most_workers = most_workers_of(profile, model);
  model.ingestion = ingestion.samples_per_s;
  model.ingestion_error = half_width(ingestion.ci95_samples_per_s, ingestion.samples_per_s);
  model.step_samples = profile.waits->step_seconds * full->samples_per_s;
  const double step = model.step_samples / model.ingestion;
  const double found_step = model.step_samples / full->samples_per_s;
  model.outside_seconds = std::min(profile.waits->outside.seconds_per_step, step);
  // A process that rested before it takes a batch over, as in drains, may wake late: it is never more than what a step as found took beyond G's.
  model.take_over = std::clamp(std::max(found_step - step, 0.0) * model.ranks / model.step_samples, model.thread_cpu, model.take_over);
  model.found = full->samples_per_s;
  model.ci95_found = full->ci95_samples_per_s;
  if (const RunRecord* const synthetic = profile.run("synthetic"); synthetic != nullptr && synthetic->cores_used)
    model.training_cpu = *synthetic->cores_used / model.ingestion;
  model.shares_cores = profile.host.accelerator_shares_cores;
  model.crowded = others_leave_no_core(*full, profile.host.cores);
  model.disturbed = profile.finds(beside_others_code);
  model.waits_for_storage = (profile.bottleneck && profile.bottleneck->detail == "storage") ||
                            (profile.stalls && profile.stalls->fetch.fraction > least_loss && profile.stalls->fetch.ci95_fraction.low > 0);
  if (full->epoch_seconds > 0) model.epoch_samples = full->epoch_seconds * full->samples_per_s;
  model.storage = storage_of(profile, *full);
  model.epoch_unknown = profile.storage && profile.reads && !profile.reads->dataset_bytes;
  if (const RunRecord* const cached = profile.run("cached"); cached != nullptr && model.storage) model.from_memory = cached->samples_per_s;
  if (const RunRecord* const busy = profile.run("busy"); busy != nullptr) model.busy = busy->samples_per_s;
  model.path = path_of(model);
  return model;
}

std::string bottleneck_words(const TrainingRates& rates, bool cpu_trains) {
  if (rates.detail == "storage") return "storage";
  if (rates.detail == "cores") return "the cores, which prep and training share";
  if (rates.detail == "delivery") return "taking batches over";
  if (rates.detail == "outside") return "what lies outside of the steps";
  const std::string trainer = cpu_trains ? "compute" : "GPU";
  return rates.bottleneck == "gpu" ? trainer : "prep";
}

}  // namespace dsanalyze
