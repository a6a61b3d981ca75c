#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace dsanalyze {

/// How fast a group goes through its batches: in this epoch, or in the one before while this one is young. Threads: one.
class GroupPace {
 public:
  void saw(Nanoseconds now, std::uint64_t released, std::uint64_t next_epoch) {
    if (next_epoch != m_next_epoch) {
      m_before = batch_time(m_now, m_released);
      m_next_epoch = next_epoch;
      m_since = now;
      m_first = released;
    }
    m_now = now;
    m_released = released;
  }
  /// How long so many batches will take; negative when nothing is known yet.
  [[nodiscard]] Nanoseconds expected(std::uint64_t batches) const {
    constexpr std::uint64_t young = 4;
    const double current = batch_time(m_now, m_released);
    const double one = (m_released < m_first + young && m_before > 0) || current <= 0 ? m_before : current;
    return one > 0 ? to_nanoseconds(one * static_cast<double>(batches) * 1e-9) : -1;
  }

 private:
  /// In nanoseconds; 0: not known.
  [[nodiscard]] double batch_time(Nanoseconds now, std::uint64_t released) const {
    return released > m_first ? static_cast<double>(now - m_since) / static_cast<double>(released - m_first) : 0;
  }

  std::uint64_t m_next_epoch = 0;
  std::uint64_t m_first = 0;
  std::uint64_t m_released = 0;
  Nanoseconds m_since = 0;
  Nanoseconds m_now = 0;
  double m_before = 0;
};

}  // namespace dsanalyze
