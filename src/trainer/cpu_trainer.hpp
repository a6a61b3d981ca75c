#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/text/units.hpp"
#include "core/batch.hpp"
#include "core/partition/collective.hpp"
#include "core/records/jobs_record.hpp"
#include "core/records/settings.hpp"
#include "reference_network.hpp"
#include "trainer.hpp"

namespace dsanalyze {

struct CpuTrainerOptions {
  std::uint32_t accelerators = 1;  ///< threads that compute; in lockstep, so a step takes a batch of each
  Precision precision = Precision::float32;
  TensorShape tensor;         ///< of the batches; their number of samples may differ
  std::uint32_t classes = 0;  ///< labels are 0 to classes - 1
  std::uint64_t seed = 1;     ///< of the first weights
  double learning_rate = NetworkOptions{}.learning_rate;
  double momentum = NetworkOptions{}.momentum;
  /// What a batch's offsets count from. Called by the threads that compute, any at once.
  std::function<const std::byte*(const Batch&)> memory;
  /// Ranks that train one network together: each step's gradient is the sum over all of them. nullptr: this one alone. Must outlive the trainer. All
  /// ranks take the same number of steps; one without samples for a step submits a batch of none. Training is synchronous, so it cannot go on with a
  /// sum that lacks a part: when a rank is lost, reap() throws Error.
  Collective* ranks = nullptr;
  double sum_seconds = 30;  ///< a sum over the ranks that takes longer fails
  /// Shown each step's gradient, a sum over its samples, and the weights after it (ReferenceNetwork::parameters()), as doubles; empty: nothing is.
  /// Called by the threads that compute, one at a time.
  std::function<void(std::span<const double> gradient, std::span<const double> weights)> look;
};

/// Labels that the reference network has room for.
constexpr std::uint32_t most_classes = 65'536;

/// The network that it trains.
NetworkOptions network_options(const CpuTrainerOptions& options);
/// What the trainer holds beside the batches.
Bytes cpu_trainer_memory(const CpuTrainerOptions& options);

/// Trains the reference network (reference_network.hpp) on the CPU, forward and backward, with the weights of its seed at first. It competes with
/// prep for cores: rates of runs with it are no sum or minimum of rates of its parts. A step takes one batch of each accelerator; their gradients,
/// computed by a thread each, are added up in the batches' order, so losses are the same to the last bit for the same batches. submit() and reap() as
/// Trainer; reap() also throws Error for what a thread found: a batch of another shape, a label out of range, values or a loss that are no finite
/// numbers, ranks that did not answer. Nothing more can be done with the trainer then. A step that is not reaped is not in training(). Timing: the
/// system's, as threads work.
std::unique_ptr<Trainer> make_cpu_trainer(const CpuTrainerOptions& options, Timing timing);

/// Losses of a run of any length, in bounded memory.
class LossHistory {
 public:
  explicit LossHistory(TrainingRecord record) : m_record(std::move(record)) {}
  /// Of the next step. `loss_sum` is over `samples`; a step without samples only counts.
  void add(std::uint64_t epoch, double loss_sum, std::uint64_t samples);
  [[nodiscard]] const TrainingRecord& record() const { return m_record; }

 private:
  TrainingRecord m_record;
  std::uint64_t m_every = 1;
  double m_epoch_sum = 0;
};

}  // namespace dsanalyze
