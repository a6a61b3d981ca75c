#pragma once

#include <deque>
#include <functional>
#include <stop_token>
#include <vector>

#include "dsanalyze/loaders/loader.hpp"
#include "dsanalyze/trainer/trainer.hpp"
#include "windows.hpp"

namespace dsanalyze {

/// What happened on the accelerators of one run.
struct TrainingLog {
  Nanoseconds begun = 0;
  Nanoseconds ended = 0;                    ///< before the loader was stopped: what comes after is no part of any rate
  Nanoseconds first_batch = 0;              ///< when the first batch was there; not before the begin, though loaders begin earlier
  std::deque<BatchCompletion> completions;  ///< in the order of their ends, as reaped

  /// Samples trained up to each step's end.
  [[nodiscard]] std::vector<ProgressPoint> progress() const;
};

/// Feeds the trainer from the loader until `enough` says so (asked after each completion and at least four times a second), then stops the loader.
/// Throws Error when the loader fails (names the sample), Interrupted when asked to stop.
TrainingLog train(Loader& loader, Trainer& trainer, const std::function<bool(const TrainingLog&)>& enough, const std::stop_token& stop,
                  Timing timing);

}  // namespace dsanalyze
