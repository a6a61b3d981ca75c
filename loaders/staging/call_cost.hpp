#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace dsanalyze::staging {

/// What calls of one kind cost their threads in CPU time, which waiting takes none of. One in 16 is measured: the clock costs as much as a short
/// call. Threads: any.
class CallCost {
 public:
  template <typename Call>
  auto of(const Call& call) {
    constexpr std::uint64_t one_in = 16;
    constexpr std::uint64_t first = 3;  // not the very first, in which memory is touched for the first time; early enough for short runs
    if (m_calls.fetch_add(1, std::memory_order_relaxed) % one_in != first) return call();
    const Nanoseconds begun = thread_cpu_time();
    const auto result = call();
    m_time.fetch_add(thread_cpu_time() - begun, std::memory_order_relaxed);
    m_measured.fetch_add(1, std::memory_order_relaxed);
    return result;
  }
  /// Of all calls, as those that were measured say; 0 when none was.
  [[nodiscard]] Nanoseconds total() const {
    const std::uint64_t measured = m_measured.load(std::memory_order_relaxed);
    if (measured == 0) return 0;
    const double mean = static_cast<double>(m_time.load(std::memory_order_relaxed)) / static_cast<double>(measured);
    return static_cast<Nanoseconds>(mean * static_cast<double>(m_calls.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<std::uint64_t> m_calls{0};
  std::atomic<std::uint64_t> m_measured{0};
  std::atomic<Nanoseconds> m_time{0};
};

}  // namespace dsanalyze::staging
