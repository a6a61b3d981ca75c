#include "trial_run.hpp"

#include <algorithm>
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

}  // namespace dsanalyze
