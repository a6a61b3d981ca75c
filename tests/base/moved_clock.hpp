#pragma once

#include <atomic>

#include "base/clock.hpp"

namespace dsanalyze::testing {

/// The system's clock, moved by the test: deadlines of the past (whatever is not there at once times out), retries that are due.
class MovedClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const override { return system_timing().clock->now() + m_moved; }
  void move(double seconds) { m_moved += to_nanoseconds(seconds); }
  Timing timing() { return {this, system_timing().waiter}; }

 private:
  std::atomic<Nanoseconds> m_moved{0};
};

}  // namespace dsanalyze::testing
