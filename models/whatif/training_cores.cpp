#include "training_cores.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

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
  const Interval& found = model.ci95_found;
  if (model.found <= 0 || found.high <= found.low || by_law.ci95.overlaps(found)) return;
  const double factor = model.found / by_law.samples_per_s;
  if (!explained_by_cpu(model, full, drained, factor)) return;
  model.beside_steps = corrected_by(factor);
  model.beside_steps_error = half_width(found, model.found);
}

double law_error(const TrainingModel& model, double cores) {
  constexpr double on_half = 0.1;
  return on_half * std::clamp(std::log(model.cores / cores) / std::numbers::ln2, 0.0, 1.0);
}

}  // namespace dsanalyze
