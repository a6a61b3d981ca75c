#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dsanalyze {

/// Instants and durations in nanoseconds of a monotonic clock. Instants of one server are comparable between its processes.
using Nanoseconds = std::int64_t;

constexpr Nanoseconds nanoseconds_per_second = 1'000'000'000;
/// Rounded to the nearest; times beyond 285 years, infinite ones too, become 285 years.
constexpr Nanoseconds to_nanoseconds(double seconds) {
  constexpr double longest = 9e9;
  const double within = seconds < -longest ? -longest : seconds > longest ? longest : seconds;
  return static_cast<Nanoseconds>(within * 1e9 + (seconds < 0 ? -0.5 : 0.5));
}
constexpr double to_seconds(Nanoseconds duration) { return static_cast<double>(duration) * 1e-9; }

/// The instant after which a wait gives up. Every wait has one.
struct Deadline {
  Nanoseconds at = 0;
};

/// Tells the time. Threads: any.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Nanoseconds now() const = 0;
  [[nodiscard]] Deadline after(double seconds) const { return {now() + to_nanoseconds(seconds)}; }
};

/// The only blocking calls on the data path, so that a test can replay every schedule. Threads: any.
class Waiter {
 public:
  virtual ~Waiter() = default;
  /// Blocks while `word` holds `expected`, until a wake or the deadline. Returns false if the deadline passed. May return early
  /// without cause: callers look at their condition again. Works between processes when the word lies in shared memory.
  virtual bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) = 0;
  /// Wakes up to `count` waiters of `word`.
  virtual void wake(const std::atomic<std::uint32_t>& word, int count) = 0;
  /// Returns at `instant`, or at once if it has passed.
  virtual void sleep_until(Nanoseconds instant) = 0;
};

/// The two sources of time that a part is built with. Plain references: the owner outlives the part.
struct Timing {
  const Clock* clock;
  Waiter* waiter;
};

/// CLOCK_MONOTONIC, futexes and clock_nanosleep. Live as long as the program.
Timing system_timing();

/// Time that only moves when someone sleeps or when the test says so: sleep_until() and an expired wait() advance it at once.
/// For single-threaded tests of anything that takes a Timing.
class ManualTiming : public Clock, public Waiter {
 public:
  [[nodiscard]] Nanoseconds now() const override { return m_now; }
  void advance(Nanoseconds duration) { m_now += duration; }
  bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) override;
  void wake(const std::atomic<std::uint32_t>& word, int count) override;
  void sleep_until(Nanoseconds instant) override;
  Timing timing() { return {this, this}; }

 private:
  std::atomic<Nanoseconds> m_now{0};
};

/// An instant of the wall clock in UTC as ISO 8601 writes it, to the second: "2026-11-20T21:05:33Z". Years 0 to 9999; others are held to that range.
std::string utc_text(std::chrono::system_clock::time_point instant);
/// The instant that such a text names; nullopt where it has not that form, or no such date or time of day exists. A leap second is the one after it.
std::optional<std::chrono::system_clock::time_point> parse_utc(std::string_view text);

/// CPU time of the calling thread since it began.
Nanoseconds thread_cpu_time();

}  // namespace dsanalyze
