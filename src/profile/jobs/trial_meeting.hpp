#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "trial_search.hpp"

namespace dsanalyze {

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
