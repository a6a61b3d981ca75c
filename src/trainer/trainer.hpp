#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "core/batch.hpp"
#include "core/device.hpp"
#include "core/records/jobs_record.hpp"
#include "core/records/settings.hpp"

namespace dsanalyze {

/// One batch that an accelerator has done with.
struct BatchCompletion {
  ReleaseToken token;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint32_t samples = 0;
  bool last_of_epoch = false;
  Nanoseconds ready = 0;  ///< when the batch was prepared
  Nanoseconds begin = 0;  ///< of its step; begin less the end of the step before it is the stall
  Nanoseconds end = 0;
  Nanoseconds stall = 0;  ///< how long its accelerator waited for data
};

/// What consumes batches. submit() takes a batch and returns at once, or refuses it (busy) past what its accelerators hold; the slot may be written
/// again when the batch's completion was reaped, not before. reap() waits for at least one completion or the deadline. Threads: one caller. No
/// allocation in the steady state.
class Trainer {
 public:
  virtual ~Trainer() = default;
  virtual Status submit(const Batch& batch) = 0;
  virtual std::size_t reap(std::span<BatchCompletion> completions, Deadline deadline) = 0;
  /// More batches are welcome now: an accelerator has nothing to do.
  [[nodiscard]] virtual bool wants_batch() const = 0;
  /// What was learned in the steps that were reaped; nullopt for those that only take their time.
  [[nodiscard]] virtual std::optional<TrainingRecord> training() const { return std::nullopt; }
};

struct EmulatedTrainerOptions {
  std::uint32_t accelerators = 1;
  double samples_per_second = 0;  ///< of one accelerator; a step of n samples takes n / this
  StepMode step = StepMode::lockstep;
};

/// Accelerators as clocks: end(k) = max(end(k-1), ready(k)) + t on lanes that belong to the server. In lockstep a step takes one batch of each
/// accelerator and lasts as long as its largest; independent accelerators take the next batch each as they become free. They take data by DMA: no CPU
/// touches the batch.
std::unique_ptr<Trainer> make_emulated_trainer(const EmulatedTrainerOptions& options, std::span<DeviceLane> accelerators, Timing timing);
/// Done with every batch at once: the loader alone.
std::unique_ptr<Trainer> make_null_trainer();

}  // namespace dsanalyze
