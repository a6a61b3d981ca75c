#pragma once

#include <chrono>
#include <thread>

#include "base/clock.hpp"

namespace dsanalyze::testing {

/// A deadline that only a test that hangs meets: a minute from now.
inline Deadline soon() { return system_timing().clock->after(60); }

/// Whether it does within half a minute, which only a test that fails waits for.
template <typename Condition>
bool becomes_true(const Condition& condition) {
  constexpr int looks = 6000;
  for (int i = 0; i < looks; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace dsanalyze::testing
