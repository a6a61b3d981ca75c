#pragma once

#include "training_model.hpp"

namespace dsanalyze {

// P of a launched training whose data lies in memory: a part of its model. Pure.

/// What limits P by the rule of rates_of(), without any correction.
struct PrepLaw {
  double rate = 0;
  TrainingRates::Limit limit = TrainingRates::Limit::workers;
};
PrepLaw prep_law(const TrainingModel& model, int workers, double cores);

/// P by the law and what was measured.
struct PrepRate {
  double rate = 0;
  double error = 0;  ///< half of its 95 % interval over its value
  TrainingRates::Limit limit = TrainingRates::Limit::workers;
  double of_cores = 1;  ///< what the measured points, and runs beside steps, say of the law where the cores limit it
};
PrepRate prep_from_memory(const TrainingModel& model, int workers, double cores);

}  // namespace dsanalyze
