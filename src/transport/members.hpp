#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "dsanalyze/base/clock.hpp"

namespace dsanalyze::transport {

/// Who this rank takes for alive, and a word that changes with all news that a waiting rank may want. Threads: any, at once.
class Members {
 public:
  Members(std::uint32_t world, std::uint32_t own, Timing timing) : m_dead(world), m_own(own), m_timing(timing) {}

  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(m_dead.size()); }
  [[nodiscard]] std::uint32_t own() const { return m_own; }
  [[nodiscard]] bool alive(std::uint32_t rank) const { return rank < m_dead.size() && !m_dead[rank].load(std::memory_order_acquire); }
  /// For good. True for who found it.
  bool bury(std::uint32_t rank) {
    if (m_dead[rank].exchange(true)) return false;
    tell();
    return true;
  }
  /// To be read before looking at what is waited for.
  [[nodiscard]] std::uint32_t news() const { return m_news.load(std::memory_order_acquire); }
  void tell() {
    m_news.fetch_add(1, std::memory_order_acq_rel);
    m_timing.waiter->wake(m_news, INT32_MAX);
  }
  /// False when the deadline has passed.
  bool wait(std::uint32_t seen, Deadline deadline) { return m_timing.waiter->wait(m_news, seen, deadline) || m_timing.clock->now() < deadline.at; }
  [[nodiscard]] Nanoseconds now() const { return m_timing.clock->now(); }
  [[nodiscard]] Deadline after(double seconds) const { return m_timing.clock->after(seconds); }

 private:
  std::vector<std::atomic<bool>> m_dead;
  std::uint32_t m_own;
  Timing m_timing;
  std::atomic<std::uint32_t> m_news{0};
};

}  // namespace dsanalyze::transport
