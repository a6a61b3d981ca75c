#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace dsanalyze::testing {

/// The system's time, so many times as fast: waits of seconds are over in milliseconds.
class HurriedTiming final : public Clock, public Waiter {
 public:
  explicit HurriedTiming(Nanoseconds factor) : m_factor(factor), m_start(system_timing().clock->now()) {}
  [[nodiscard]] Nanoseconds now() const override { return m_start + (system_timing().clock->now() - m_start) * m_factor; }
  bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) override {
    return system_timing().waiter->wait(word, expected, {real(deadline.at)});
  }
  void wake(const std::atomic<std::uint32_t>& word, int count) override { system_timing().waiter->wake(word, count); }
  void sleep_until(Nanoseconds instant) override {
    ++m_sleeps;
    system_timing().waiter->sleep_until(real(instant));
  }
  /// How often somebody slept: who looks again and again sleeps in between.
  [[nodiscard]] int sleeps() const { return m_sleeps; }
  Timing timing() { return {this, this}; }

 private:
  [[nodiscard]] Nanoseconds real(Nanoseconds instant) const { return m_start + (instant - m_start) / m_factor; }
  Nanoseconds m_factor;
  Nanoseconds m_start;
  std::atomic<int> m_sleeps{0};
};

}  // namespace dsanalyze::testing
