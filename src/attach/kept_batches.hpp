#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "messages.hpp"

namespace dsanalyze {

/// The steps of one rank by the batch that was handed out again and again. Where batches differ, a window that does not hold whole cycles of them
/// says as much about which batches it has as about the accelerator.
class KeptBatches {
 public:
  explicit KeptBatches(const std::vector<StepWindow>& windows);

  /// Whether the windows say which batch each step was given.
  [[nodiscard]] bool known() const { return !m_seconds.empty(); }
  [[nodiscard]] std::size_t count() const { return m_seconds.size(); }
  /// The mean batch, each counted once.
  [[nodiscard]] double samples_per_step() const;
  /// How much longer the window's steps are than those of whole cycles, as its batches are such that take longer.
  [[nodiscard]] double longer(const StepWindow& window) const;
  /// The relative standard error of samples a second that comes from having only these batches of the epoch, as if they were drawn at random: what
  /// their steps differ by beyond their samples (the variance of a ratio  [Cochran, Sampling Techniques, 1977, 6.4]). What one batch's steps vary by
  /// is left out, as each half of the repetitions varies by itself. 0 for a single batch.
  [[nodiscard]] double sampling_error() const;

 private:
  [[nodiscard]] double typical_seconds() const;

  std::map<std::uint64_t, double> m_samples;
  std::map<std::uint64_t, double> m_seconds;                ///< the median step of each batch
  std::map<std::uint64_t, std::array<double, 2>> m_halves;  ///< the same of every other repetition
};

}  // namespace dsanalyze
