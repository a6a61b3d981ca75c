#include "trial_run.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace dsanalyze {
namespace {

std::optional<double> last_loss(const std::optional<TrainingRecord>& training) {
  if (!training || training->by_epoch.empty()) return std::nullopt;
  return training->by_epoch.back().loss;
}

/// Looks through what was trained for ends of epochs.
class EpochWatch {
 public:
  EpochWatch(const TrialRun& run, TrialRunResult& result) : m_run(run), m_result(result) {}

  /// Accelerators of another trial begin with a log of their own.
  void restart() { m_looked_at = 0; }
  /// Whether these accelerators have done enough.
  bool operator()(const TrainingLog& log) {
    if (m_begun == 0) m_begun = log.begun;
    for (; m_looked_at < log.completions.size(); ++m_looked_at) {
      const BatchCompletion& completion = log.completions[m_looked_at];
      m_samples += completion.samples;
      if (completion.last_of_epoch) end_epoch(completion);
    }
    return m_stopped || m_next_trial.has_value() || (m_run.enough && m_run.enough(log));
  }
  std::optional<int> next_trial() { return std::exchange(m_next_trial, std::nullopt); }

 private:
  void end_epoch(const BatchCompletion& completion) {
    const double seconds = std::max(to_seconds(completion.end - m_begun), 1e-9);
    const auto training = m_result.trainer->training();
    const TrialSearch::Decision decision =
        m_run.epoch_ended({completion.epoch, seconds, static_cast<double>(m_samples) / seconds, last_loss(training)});
    m_begun = completion.end;
    m_samples = 0;
    if (decision.kind == TrialSearch::Decision::Kind::stop) m_stopped = true;
    if (decision.kind != TrialSearch::Decision::Kind::next) return;
    m_result.trial = decision.trial;
    if (training) m_next_trial = decision.trial;
  }

  const TrialRun& m_run;
  TrialRunResult& m_result;
  std::size_t m_looked_at = 0;
  Nanoseconds m_begun = 0;
  std::uint64_t m_samples = 0;
  std::optional<int> m_next_trial;
  bool m_stopped = false;  ///< by a decision
};

}  // namespace

TrialRunResult run_trials(const TrialRun& run, BatchSource& batches, const std::stop_token& stop, Timing timing) {
  TrialRunResult result;
  result.trial = run.first_trial;
  EpochWatch watch(run, result);
  std::optional<int> trial = run.first_trial;
  do {
    result.trainer = run.make(trial);
    watch.restart();
    result.log.append(feed(batches, *result.trainer, std::ref(watch), stop, timing));
    trial = watch.next_trial();
  } while (trial);
  return result;
}

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
  std::ranges::sort(m_here, {}, &TrialSearch::Standing::job);  // in whatever order they came
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
