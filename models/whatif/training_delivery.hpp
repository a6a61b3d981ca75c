#pragma once

#include "training_model.hpp"

namespace dsanalyze {

// What the steps of a launched training lose to its workers: batches that are taken over late, and computing that waits for a core. Pure.

/// What a step takes longer at `rate` than while the workers rest. A worker hands a tensor over through a thread of its own, which waits where the
/// other workers and the training process have all cores.
double held_up_seconds(const TrainingModel& model, int workers, double cores, double rate);
/// By how much that may be wrong: of other numbers of workers than were measured, and of a step that takes so many times as long (above 0) as that of
/// the training as found.
double held_up_error_seconds(const TrainingModel& model, int workers, double cores, double rate, double longer);

/// TrainingModel::slowed_seconds: of a training of one rank whose own steps need little of the cores, what computing a step took longer than with
/// batches at hand while its workers used up the cores; mapping a batch is part of taking it over. 0 where they did not. The model has its rates and
/// CPU times.
double slowed_seconds(const TrainingModel& model, const WaitsRecord& waits);

/// Delivery at the rate that steps reach with it, which prep bounds: it grows with the rate, and the rate falls as it grows. `other_seconds` are the
/// rest of a step.
double steady_delivery_seconds(const TrainingModel& model, int workers, double cores, double prep, double other_seconds);

}  // namespace dsanalyze
