#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "profiler.hpp"
#include "trainer/cpu_trainer.hpp"

namespace dsanalyze {

// The CPU as the accelerator (--accelerator cpu): what the reference network is to learn from, and what that means for a result.

/// Throws UsageError where the dataset has nothing to learn: fewer than two labels, or more than the network has room for.
void require_labels(const DatasetIndex& index);
/// `memory` is left empty.
CpuTrainerOptions cpu_trainer_options(const ProfileInputs& inputs);
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
