#pragma once

#include "core/records/attached_record.hpp"
#include "training_model.hpp"

namespace dsanalyze {

// What runs of a launched training tell its model of the cores: the training as found, and on fewer cores. Pure.

/// Sets TrainingModel::beside_steps, where the cores limit P, P clearly limits the training as found, and nothing disturbed it. The rest of the model
/// but for fewer_cores is complete.
void learn_from_found(TrainingModel& model);

/// What that run says of P where the cores limit it, as a factor of the law's: 1 on as many cores as were measured, all of it on as few as it had, by
/// the logarithm between.
double prep_factor(const TrainingModel& model, double cores);

/// Sets TrainingModel::fewer_cores. On fewer cores the law knows neither what a worker that wakes takes of a step, which differs from machine to
/// machine, nor what changing between processes costs them. Where steps are the slower ones, the run there tells the former; where prep is, the
/// latter. The rest of the model is complete. Nothing is learnt where the CPU time of the workers is not known, or where the run is too uncertain.
void learn_from_fewer_cores(TrainingModel& model, const FewerCoresRecord& measured);

}  // namespace dsanalyze
