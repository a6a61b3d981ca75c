#pragma once

#include "core/records/attached_record.hpp"
#include "training_model.hpp"

namespace dsanalyze {

// Who gets the cores of a launched training, and what its runs tell of that: the training as found, and on fewer cores. Pure.

/// Rates that differ by less hold each other up: batches come now early and now late, and equal runs differ by half as much.
inline constexpr double hardly_apart = 0.056;
/// Of the cores: training that takes less leaves the workers alone, and one that takes twice as much does not.
inline constexpr double least_training_share = 0.05;
/// To which what all cores say of fewer is right, as a share.
inline constexpr double law_on_fewer_cores_error = 0.1;

/// Half of an interval over its value, 0 to 1; 0 without a value.
double half_width(const Interval& interval, double value);

/// CPU time of training where the accelerators are `speed` times as fast; known. What a CPU computes becomes shorter; what a process does beside a
/// device, or while it sleeps, does not.
double training_cpu(const TrainingModel& model, double speed);

/// How nearly the cores are used up, 0 to 1, where training needs some of them, and of the part of a step that it computes there: one that sleeps, or
/// feeds a device, takes no turns with prep. `rate` is what the training reaches, `ingestion` what its steps alone would.
double competition(const TrainingModel& model, double rate, double ingestion, double cores, double speed);

/// Sets TrainingModel::beside_steps by the run full, and by the drain with its number of workers, if there is one. The rest of the model but for
/// fewer_cores is complete. Nothing is learnt unless the cores limit P, P surely limits the training as found, it used up the cores, and a sample
/// took as much more CPU time as the rate differs, or half of it. Its own computing there, storage and other programs take no part in it. What
/// differs from the law by less than both intervals is no correction either, and more than a quarter is none beyond that.
void learn_from_found(TrainingModel& model, const RunRecord& full, const RunRecord* drained);

/// What that run says of P where the cores limit it, as a factor of the law's: 1 on as many cores as were measured, all of it on as few as it had, by
/// the logarithm between. Its error is a share.
double prep_factor(const TrainingModel& model, double cores);
double prep_factor_error(const TrainingModel& model, double cores);

/// Sets TrainingModel::fewer_cores. On fewer cores the law knows neither what a worker that wakes takes of a step, which differs from machine to
/// machine, nor what changing between processes costs them. Where steps are the slower ones, the run there tells the former; where prep is, the
/// latter. The rest of the model is complete. Nothing is learnt where the CPU time of the workers is not known, or where the run is too uncertain, as
/// one of a single window is.
void learn_from_fewer_cores(TrainingModel& model, const FewerCoresRecord& measured);

}  // namespace dsanalyze
