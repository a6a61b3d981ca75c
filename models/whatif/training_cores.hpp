#pragma once

#include "training_model.hpp"

namespace dsanalyze {

// Who gets the cores of a launched training, and what the training as found tells of that. Pure.

/// Rates that differ by less hold each other up: batches come now early and now late, and equal runs differ by half as much.
inline constexpr double hardly_apart = 0.056;
/// Of the cores: training that takes less leaves the workers alone, and one that takes twice as much does not.
inline constexpr double least_training_share = 0.05;

/// Half of an interval over its value, 0 to 1; 0 without a value.
double half_width(const Interval& interval, double value);

/// CPU time of training where the accelerators are `speed` times as fast; known. What a CPU computes becomes shorter; what a process does beside a
/// device, or while it sleeps, does not.
double training_cpu(const TrainingModel& model, double speed);

/// How nearly the cores are used up, 0 to 1, where training needs some of them, and of the part of a step that it computes there: one that sleeps, or
/// feeds a device, takes no turns with prep. `rate` is what the training reaches, `ingestion` what its steps alone would.
double competition(const TrainingModel& model, double rate, double ingestion, double cores, double speed);

/// Sets TrainingModel::beside_steps by the run full, and by the drain with its number of workers, if there is one. The rest of the model is complete.
/// Nothing is learnt unless the cores limit P, P surely limits the training as found, it used up the cores, and a sample took as much more CPU time
/// as the rate differs, or half of it. Its own computing there, storage and other programs take no part in it. What differs from the law by less than
/// both intervals is no correction either, and more than a quarter is none beyond that.
void learn_from_found(TrainingModel& model, const RunRecord& full, const RunRecord* drained);

/// By how much P may differ where so many cores limit it, as a share: what all cores say of half of them and of fewer is right to a tenth.
double law_error(const TrainingModel& model, double cores);

}  // namespace dsanalyze
