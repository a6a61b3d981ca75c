#pragma once

#include <cstdint>

#include "core/records/jobs_record.hpp"

namespace dsanalyze {

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
