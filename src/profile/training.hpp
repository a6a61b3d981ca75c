#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/batch.hpp"
#include "loaders/server/server_scope.hpp"
#include "profiler.hpp"
#include "trainer/cpu_trainer.hpp"
#include "trainer/gpu_trainer.hpp"
#include "trainer/trainer.hpp"
#include "windows.hpp"

namespace dsanalyze {

/// What happened on the accelerators of one run.
struct TrainingLog {
  Nanoseconds begun = 0;
  Nanoseconds ended = 0;                    ///< before the loader was stopped: what comes after is no part of any rate
  Nanoseconds first_batch = 0;              ///< when the first batch was there; not before the begin, though loaders begin earlier
  std::deque<BatchCompletion> completions;  ///< in the order of their ends, as reaped

  /// Goes on with what came after it.
  void append(TrainingLog later);
  /// Samples trained up to each step's end.
  [[nodiscard]] std::vector<ProgressPoint> progress() const;
  /// When the last mini-batch of each epoch that came to its end was trained, by the epoch's number.
  [[nodiscard]] std::map<std::uint64_t, Nanoseconds> epoch_ends() const;
  /// The end of the first epoch where something came after it; the begin otherwise.
  [[nodiscard]] Nanoseconds steady_begin() const;
  /// Of the accelerators' time from then on, what they waited for batches: 0 to 1.
  [[nodiscard]] double steady_stall_fraction(int accelerators) const;
  /// The longest of those waits.
  [[nodiscard]] Nanoseconds longest_steady_stall() const;
};

/// As train(), but leaves the source as it is: for who trains on with its next batches.
TrainingLog feed(BatchSource& batches, Trainer& trainer, const std::function<bool(const TrainingLog&)>& enough, const std::stop_token& stop,
                 Timing timing);
/// Feeds the trainer until `enough` says so (asked after each completion and at least four times a second), then stops the source of batches.
/// Throws Error when that fails (names the sample), Interrupted when asked to stop.
TrainingLog train(BatchSource& batches, Trainer& trainer, const std::function<bool(const TrainingLog&)>& enough, const std::stop_token& stop,
                  Timing timing);

/// What accelerators of one job do with its batches: those from `first` on of the server's. It must end before `batches` does. A network that learns
/// does so as the trial of a search says.
std::unique_ptr<Trainer> make_trainer(const ProfileInputs& inputs, ServerDevices& devices, std::uint32_t first, const BatchSource& batches,
                                      Timing timing, std::optional<int> trial = std::nullopt);

/// As make_trainer(), for the first accelerators of a rank that does what all others do: a network that learns is one network of all, so the sum of
/// gradients waits for the slowest rank, `patience_seconds` at most, and the loss of a rank ends it with an Error (synchronous training). Must end
/// before the ranks do; once this is gone they do not train together any more.
class TeamTrainer {
 public:
  TeamTrainer(const ProfileInputs& inputs, ServerDevices& devices, const BatchSource& batches, double patience_seconds, Timing timing);
  /// A sum that waits ends.
  ~TeamTrainer();
  TeamTrainer(const TeamTrainer&) = delete;
  TeamTrainer& operator=(const TeamTrainer&) = delete;
  Trainer& operator*() { return *m_trainer; }

 private:
  Ranks& m_ranks;
  std::unique_ptr<Trainer> m_trainer;
};

// The CPU as the accelerator (--accelerator cpu): what the reference network is to learn from, and what that means for a result.

/// Throws UsageError where the dataset has nothing to learn: fewer than two labels, or more than the network has room for.
void require_labels(const DatasetIndex& index);
/// `memory` is left empty.
CpuTrainerOptions cpu_trainer_options(const ProfileInputs& inputs);
/// Which device has what of a batch: of a mesh, or one for each accelerator. Throws UsageError for a mesh that does not fit the batches.
BatchLayout batch_layout(const ProfileInputs& inputs);
/// Of real GPUs; `memory` is left empty.
GpuTrainerOptions gpu_trainer_options(const ProfileInputs& inputs);
/// "reference network of 12,938 parameters, float, 1 thread"
std::string reference_network_text(const ProfileInputs& inputs);

/// What to know of a network whose last whole epoch was no better than a guess among the classes; empty for one that learned, or had no two whole
/// epochs for it.
std::string nothing_learned_text(const std::string& run, const TrainingRecord& training);

/// A batch as prep would write it, of random bytes and labels: what the run synthetic trains on.
class MadeUpBatch {
 public:
  explicit MadeUpBatch(const ProfileInputs& inputs);
  /// Its tensor, offsets and count; the rest is left to the caller.
  [[nodiscard]] const Batch& batch() const { return m_batch; }
  [[nodiscard]] const std::byte* memory() const { return m_memory.data(); }

 private:
  Batch m_batch;
  std::vector<std::byte> m_memory;
};

}  // namespace dsanalyze
