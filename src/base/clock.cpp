#include "clock.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace dsanalyze {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free,
              "a futex is a plain 32-bit word");

timespec to_timespec(Nanoseconds instant) {
  const Nanoseconds valid = std::max<Nanoseconds>(instant, 0);
  return {static_cast<time_t>(valid / nanoseconds_per_second), static_cast<long>(valid % nanoseconds_per_second)};
}

// The kernel may end a timed wait up to the thread's slack late, by default 50 us: too much for devices emulated to the microsecond.
void sharpen_timers_of_this_thread() {
  static thread_local bool done = false;
  if (done) return;
  done = true;
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

// Not FUTEX_PRIVATE_FLAG: words lie in segments that several processes map.
long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout, std::uint32_t bits) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, bits);
}

class MonotonicClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const override {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<Nanoseconds>(time.tv_sec) * nanoseconds_per_second + time.tv_nsec;
  }
};

class FutexWaiter final : public Waiter {
 public:
  bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) override {
    if (word.load(std::memory_order_acquire) != expected) return true;
    sharpen_timers_of_this_thread();
    // FUTEX_WAIT_BITSET, other than FUTEX_WAIT, takes an absolute instant of CLOCK_MONOTONIC.
    const timespec until = to_timespec(deadline.at);
    return futex(word, FUTEX_WAIT_BITSET, expected, &until, FUTEX_BITSET_MATCH_ANY) == 0 || errno != ETIMEDOUT;
  }

  void wake(const std::atomic<std::uint32_t>& word, int count) override {
    if (count > 0) futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(count), nullptr, 0);
  }

  void sleep_until(Nanoseconds instant) override {
    sharpen_timers_of_this_thread();
    const timespec until = to_timespec(instant);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) continue;
  }
};

}  // namespace

Timing system_timing() {
  static const MonotonicClock clock;
  static FutexWaiter waiter;
  return {&clock, &waiter};
}

bool ManualTiming::wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) {
  if (word.load(std::memory_order_acquire) != expected) return true;
  sleep_until(deadline.at);
  return false;
}

void ManualTiming::wake(const std::atomic<std::uint32_t>& /*word*/, int /*count*/) {}

void ManualTiming::sleep_until(Nanoseconds instant) { m_now = std::max(m_now.load(), instant); }

}  // namespace dsanalyze
