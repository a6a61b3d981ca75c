#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "base/clock.hpp"
#include "base/random.hpp"

namespace dsanalyze::testing {

/// Threads of which one runs at a time: each goes on until it calls in here, and who is next is drawn from a seed. Time passes with such calls, and
/// jumps when all wait. So a run is a function of its seed, although its threads are real.
class Turns final : public Clock, public Waiter {
 public:
  explicit Turns(std::uint64_t seed) : m_random(seed) {}

  [[nodiscard]] Nanoseconds now() const override { return m_now.load(); }
  bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) override;
  void wake(const std::atomic<std::uint32_t>& word, int count) override;
  void sleep_until(Nanoseconds instant) override;
  Timing timing() { return {this, this}; }

  /// The calling thread is one of them from now on, and has its first turn when this returns.
  void enter();
  /// It is none any more.
  void leave();
  /// Another may have its turn, or `preferred` has it if it can go on.
  void yield() { give_up(0, nullptr); }
  void yield_to(std::uint64_t preferred);
  /// The number of the calling thread, in order of entering.
  [[nodiscard]] static std::uint64_t self();
  [[nodiscard]] std::uint64_t entered() const { return m_entered.load(); }
  /// Lets the first thread go, when as many have entered.
  void start(std::uint64_t threads);
  /// From now on all run as they like: for a run that does not come to its end.
  void set_free();
  [[nodiscard]] bool free() const { return m_free.load(); }
  [[nodiscard]] std::uint64_t turns() const { return m_turns.load(); }

 private:
  struct Thread {
    std::condition_variable condition;
    bool there = true;
    const std::atomic<std::uint32_t>* word = nullptr;
    Nanoseconds until = 0;  ///< sleeps as long, or until its word is woken
  };
  void give_up(Nanoseconds until, const std::atomic<std::uint32_t>* word);
  void choose();  ///< who is next, with the lock held
  void await_turn(std::unique_lock<std::mutex>& lock, std::uint64_t number);

  std::mutex m_mutex;
  RandomStream m_random;
  std::deque<Thread> m_threads;
  std::uint64_t m_next = UINT64_MAX;       ///< whose turn it is
  std::uint64_t m_preferred = UINT64_MAX;  ///< once
  std::atomic<std::uint64_t> m_entered{0};
  std::atomic<std::uint64_t> m_turns{0};
  std::atomic<Nanoseconds> m_now{nanoseconds_per_second};
  std::atomic<bool> m_free{false};
};

}  // namespace dsanalyze::testing
