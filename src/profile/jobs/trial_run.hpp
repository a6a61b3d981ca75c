#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "profile/training.hpp"
#include "trial_search.hpp"

namespace dsanalyze {

/// How a job trains: one set-up throughout, or in a search one trial after another on the same stream of batches.
struct TrialRun {
  /// Makes the accelerators; told the trial's number in a search.
  std::function<std::unique_ptr<Trainer>(std::optional<int> trial)> make;
  std::optional<int> first_trial;
  /// Told of each epoch's end, says what then.
  std::function<TrialSearch::Decision(const TrialEpoch&)> epoch_ended;
  /// As feed()'s.
  std::function<bool(const TrainingLog&)> enough;
};

struct TrialRunResult {
  TrainingLog log;
  std::unique_ptr<Trainer> trainer;  ///< the last
  std::optional<int> trial;          ///< the last
};

/// Trains until a decision, `enough` or the source's end stops it; leaves the source as it is. Errors as feed()'s. Accelerators that do not learn are
/// made once: they would do the same for every trial.
TrialRunResult run_trials(const TrialRun& run, BatchSource& batches, const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
