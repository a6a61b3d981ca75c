#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "profile/training.hpp"
#include "trial_search.hpp"

namespace dsanalyze {

/// How a job trains: one configuration throughout, or in a search one trial after another on the same stream of batches.
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

/// Where jobs that are threads of one process meet at the ends of their epochs, to hear what the search has decided. Threads: any.
class TrialMeeting {
 public:
  explicit TrialMeeting(const ProfileSettings& settings);

  /// The trial that a job begins with.
  [[nodiscard]] std::optional<int> first(int job) const { return m_first.at(job); }
  /// Waits for the others that run; go, should `stop` be set meanwhile.
  TrialSearch::Decision attend(const TrialSearch::Standing& standing, const std::atomic<bool>& stop);
  /// The job comes no more, whatever the reason; no harm after it was told to stop.
  void leave(int job);
  [[nodiscard]] std::vector<SearchTrialRecord> records() const;

 private:
  void decide_if_all_are_here();

  mutable std::mutex m_mutex;
  std::condition_variable m_decided;
  TrialSearch m_search;
  std::map<int, std::optional<int>> m_first;
  std::set<int> m_running;
  std::vector<TrialSearch::Standing> m_here;
  std::map<int, TrialSearch::Decision> m_decisions;
};

}  // namespace dsanalyze
