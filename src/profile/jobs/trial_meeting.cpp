#include "trial_meeting.hpp"

#include <algorithm>
#include <chrono>

namespace dsanalyze {
namespace {

constexpr std::chrono::milliseconds look_up_time{100};  ///< for the order to stop

}  // namespace

TrialMeeting::TrialMeeting(const ProfileSettings& settings) : m_search(settings) {
  for (int job = 0; job < settings.jobs; ++job) {
    m_first[job] = m_search.begin(job);
    m_running.insert(job);
  }
}

TrialSearch::Decision TrialMeeting::attend(const TrialSearch::Standing& standing, const std::atomic<bool>& stop) {
  std::unique_lock lock(m_mutex);
  m_here.push_back(standing);
  decide_if_all_are_here();
  while (!m_decisions.contains(standing.job)) {
    if (stop.load()) return {};
    m_decided.wait_for(lock, look_up_time);
  }
  return m_decisions.extract(standing.job).mapped();
}

void TrialMeeting::leave(int job) {
  const std::scoped_lock lock(m_mutex);
  m_running.erase(job);
  std::erase_if(m_here, [&](const TrialSearch::Standing& standing) { return standing.job == job; });
  decide_if_all_are_here();
}

void TrialMeeting::decide_if_all_are_here() {
  if (m_here.empty() || m_here.size() < m_running.size()) return;
  std::ranges::sort(m_here, {}, &TrialSearch::Standing::job);  // whoever came first
  const std::vector<TrialSearch::Decision> decisions = m_search.decide(m_here);
  for (std::size_t i = 0; i < m_here.size(); ++i) {
    m_decisions[m_here[i].job] = decisions[i];
    if (decisions[i].kind == TrialSearch::Decision::Kind::stop) m_running.erase(m_here[i].job);
  }
  m_here.clear();
  m_decided.notify_all();
}

std::vector<SearchTrialRecord> TrialMeeting::records() const {
  const std::scoped_lock lock(m_mutex);
  return m_search.records();
}

}  // namespace dsanalyze
