#include "training_cores.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {
namespace {

/// What is further off is no matter of cores.
constexpr double most_corrected = 1.25;

double corrected_by(double factor) { return std::clamp(factor, 1 / most_corrected, most_corrected); }

/// Nearly all of the cores were busy, and next to nothing came from storage.
bool only_cores_limited(const TrainingModel& model, const RunRecord& full) {
  constexpr double nearly_all = 0.85;
  constexpr double least_from_storage = 0.02;
  if (!full.cores_used || *full.cores_used < nearly_all * model.cores || !full.storage_bytes) return false;
  return static_cast<double>(*full.storage_bytes) <= least_from_storage * static_cast<double>(full.requested_bytes) ||
         *full.storage_bytes < Bytes{1} << 20;
}

/// Whether a sample took so much more CPU time in the training as found than in the drain, or at least half of that.
bool explained_by_cpu(const TrainingModel& model, const RunRecord& full, const RunRecord* drained, double factor) {
  constexpr double mostly = 0.5;
  if (drained == nullptr || !drained->cores_used || *drained->cores_used <= 0 || drained->samples_per_s <= 0) return false;
  const double found = *full.cores_used / model.found - *model.training_cpu;
  const double more = found * drained->samples_per_s / *drained->cores_used - 1;
  return factor != 1 && more / (1 / factor - 1) >= mostly;
}

}  // namespace

double half_width(const Interval& interval, double value) { return value > 0 ? std::clamp((interval.high - interval.low) / 2 / value, 0.0, 1.0) : 0; }

double training_cpu(const TrainingModel& model, double speed) {
  // Of a core, of each rank: what lies between is partly the one and partly the other.
  constexpr double beside = 0.4;
  constexpr double computes = 0.6;
  const double used = *model.training_cpu * model.ingestion / model.ranks;
  const double computed = std::clamp((used - beside) / (computes - beside), 0.0, 1.0);
  return *model.training_cpu * (computed / speed + 1 - computed);
}

double competition(const TrainingModel& model, double rate, double ingestion, double cores, double speed) {
  constexpr double from = 0.6;
  if (!model.shares_cores) return 0;
  if (!model.training_cpu || !model.worker_cpu) return 1;
  const double training = training_cpu(model, speed);
  const double used = rate * (*model.worker_cpu + model.process_cpu + training) / cores;
  const double above_least = training * rate / (least_training_share * cores) - 1;
  return std::clamp(above_least, 0.0, 1.0) * std::clamp((used - from) / (1 - from), 0.0, 1.0) *
         std::clamp(training * ingestion / model.ranks, 0.0, 1.0);
}

void learn_from_found(TrainingModel& model, const RunRecord& full, const RunRecord* drained) {
  // Ranks wait for one another, too.
  if (model.ranks > 1 || model.workers < 1 || !model.worker_cpu || !model.training_cpu || model.waits_for_storage || model.crowded || model.disturbed)
    return;
  // What takes more competes with prep, which competing_loss says.
  if (!only_cores_limited(model, full) || *model.training_cpu * model.found > least_training_share * model.cores) return;
  TrainingModel from_memory = model;
  from_memory.storage.reset();
  const TrainingRates by_law = rates_of(from_memory, {});
  const bool prep_limits = by_law.prep_limit == TrainingRates::Limit::cores && by_law.bottleneck == "cpu";
  if (!prep_limits || by_law.ingestion < (1 + hardly_apart) * by_law.prep || by_law.ci95_prep.overlaps(by_law.ci95_ingestion)) return;
  const double pause = model.pause_seconds / model.step_samples;
  const double lasted = 1 / model.found - pause;
  const Interval& found = model.ci95_found;
  if (lasted <= 0 || found.high <= found.low || by_law.ci95.overlaps(found)) return;
  const double factor = (1 / by_law.samples_per_s - pause) / lasted;
  if (!explained_by_cpu(model, full, drained, factor)) return;
  model.beside_steps = corrected_by(factor);
  model.beside_steps_error = half_width(found, model.found);
}

double prep_factor(const TrainingModel& model, double cores) {
  if (!model.fewer_cores || cores >= model.cores) return 1;
  const double part = std::log(model.cores / cores) / std::log(model.cores / model.fewer_cores->cores);
  return std::pow(model.fewer_cores->prep_factor, std::min(part, 1.0));
}

double prep_factor_error(const TrainingModel& model, double cores) {
  return model.fewer_cores && cores < model.cores ? model.fewer_cores->prep_error : 0;
}

void learn_from_fewer_cores(TrainingModel& model, const FewerCoresRecord& measured) {
  if (model.workers < 1 || !model.worker_cpu || measured.samples_per_s <= 0 || measured.cores < 1 || measured.cores >= model.cores) return;
  if (measured.ci95_samples_per_s.high <= measured.ci95_samples_per_s.low) return;
  TrainingModel::FewerCores fewer;
  fewer.cores = measured.cores;
  const double error = half_width(measured.ci95_samples_per_s, measured.samples_per_s);
  TrainingModel from_memory = model;  // It ran a few seconds, of data that had been read before.
  from_memory.storage.reset();
  const auto predicted = [&](double taken) {
    from_memory.fewer_cores = {fewer.cores, taken, 0, 1, 0};
    return rates_of(from_memory, {.cores = fewer.cores});
  };
  const TrainingRates by_law = predicted(1);
  if (by_law.prep < by_law.ingestion) {
    if (by_law.prep_limit != TrainingRates::Limit::cores) return;
    // A run of a few windows weighs less than the law, or than drains on as many cores, which see all but the steps.
    constexpr double steps_error = 0.03;
    const double drained_error = half_width(by_law.ci95_prep, by_law.prep);
    const double law_error =
        model.prep_on_fewer.empty() ? law_on_fewer_cores_error : std::clamp(drained_error, steps_error, law_on_fewer_cores_error);
    const double weight = law_error * law_error / (law_error * law_error + error * error);
    const double pause = model.pause_seconds / model.step_samples;
    const double lasted = 1 / measured.samples_per_s - pause;
    if (lasted <= 0) return;
    fewer.prep_factor = std::pow(corrected_by((1 / by_law.samples_per_s - pause) / lasted), weight);
    fewer.prep_error = std::sqrt(weight) * error;
    model.fewer_cores = fewer;
    return;
  }
  // A whole slice; where drains there are known, what they and computing do not say may be more.
  const double whole_slice = model.prep_on_fewer.empty() ? 1.6 : 3;
  // Where enough cores are left that nothing is taken, or something else holds steps up for longer, the rate says nothing of it.
  constexpr double clearly = 2;
  if (predicted(0).samples_per_s - predicted(whole_slice).samples_per_s <= clearly * error * measured.samples_per_s) return;
  constexpr int halvings = 20;
  double low = 0;
  double high = whole_slice;
  for (int halving = 0; halving < halvings; ++halving) {
    const double middle = (low + high) / 2;
    (predicted(middle).samples_per_s > measured.samples_per_s ? low : high) = middle;
  }
  fewer.taken_factor = (low + high) / 2;
  fewer.taken_error = error;
  model.fewer_cores = fewer;
}

}  // namespace dsanalyze
