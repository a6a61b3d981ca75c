#pragma once

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

 private:
  [[nodiscard]] double typical_seconds() const;

  std::map<std::uint64_t, double> m_samples;
  std::map<std::uint64_t, double> m_seconds;  ///< the median step of each batch
};

}  // namespace dsanalyze
