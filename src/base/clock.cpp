#include "clock.hpp"

#include <fmt/format.h>
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

std::string utc_text(std::chrono::system_clock::time_point instant) {
  using namespace std::chrono;
  constexpr sys_seconds first = sys_days(year(0) / January / 1);
  constexpr sys_seconds last = sys_days(year(10'000) / January / 1) - seconds(1);
  const sys_seconds at = std::clamp(floor<seconds>(instant), first, last);
  const sys_days day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss time(at - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), time.hours().count(), time.minutes().count(), time.seconds().count());
}

std::optional<std::chrono::system_clock::time_point> parse_utc(std::string_view text) {
  constexpr std::string_view form = "0000-00-00T00:00:00Z";
  if (text.size() != form.size()) return std::nullopt;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool fits = form[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    if (!fits) return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t count) {
    int value = 0;
    for (const char digit : text.substr(at, count)) value = value * 10 + (digit - '0');
    return value;
  };
  using namespace std::chrono;
  const year_month_day date(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))), day(static_cast<unsigned>(number(8, 2))));
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return sys_days(date) + hours(hour) + minutes(minute) + seconds(second);
}

Nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * nanoseconds_per_second + time.tv_nsec;
}

}  // namespace dsanalyze
