#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/records/jobs_record.hpp"
#include "core/records/settings.hpp"

namespace dsanalyze {

/// What a trial of a search trains with: drawn from the seed and its number, the rate evenly in its logarithm from 0.001 to 0.02, the momentum from
/// 0.5 to 0.9.
struct TrialSetup {
  double learning_rate = 0;
  double momentum = 0;
};
TrialSetup trial_setup(std::uint64_t seed, int trial);

/// How an epoch of a job went.
struct TrialEpoch {
  std::uint64_t epoch = 0;
  double seconds = 0;
  double samples_per_s = 0;
  std::optional<double> loss;  ///< its mean, where a network learns
};

/// A search over configurations that are trained side by side, as successive halving does [Hyperband; CoorDL, App. E.2.3]: every so many epochs the
/// worse half of those that run gives way to others, or ends when none waits. Decides alone; runs nothing. Threads: one at a time.
class TrialSearch {
 public:
  explicit TrialSearch(const ProfileSettings& settings);

  /// The trial that a job begins with; nullopt when there are more jobs than trials.
  std::optional<int> begin(int job);

  /// The trial of a job that has just trained an epoch: judged by its loss, or where nothing learns by samples/s.
  struct Standing {
    int job = 0;
    TrialEpoch epoch;
  };
  struct Decision {
    enum class Kind : std::uint8_t { go, next, stop };
    Kind kind = Kind::go;
    int trial = 0;  ///< with next
  };
  /// Of all jobs that run, in the order of `standings`. A job that is not among them is gone, and its trial with it.
  std::vector<Decision> decide(std::span<const Standing> standings);
  /// All trials, in the order in which they began; those that still run have ended where they are.
  [[nodiscard]] std::vector<SearchTrialRecord> records() const;

 private:
  struct Running {
    int job = 0;
    std::size_t record = 0;
  };
  Running& running_at(int job);
  std::optional<int> take();
  void start(int job, int trial);

  int m_trials;
  std::uint64_t m_most_epochs;
  std::uint64_t m_round;  ///< epochs between two decisions; 0: none is ended early
  std::uint64_t m_epochs = 0;
  int m_begun = 0;
  std::vector<Running> m_running;
  std::vector<SearchTrialRecord> m_records;
};

}  // namespace dsanalyze
