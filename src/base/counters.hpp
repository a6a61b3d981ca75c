#pragma once

#include <atomic>
#include <cstdint>

#include "clock.hpp"

namespace dsanalyze {

/// What a stage has done so far. A plain copy.
struct StageTotals {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failures = 0;
  Nanoseconds busy = 0;
  Nanoseconds waiting = 0;

  StageTotals& operator+=(const StageTotals& other) {
    samples += other.samples;
    bytes += other.bytes;
    failures += other.failures;
    busy += other.busy;
    waiting += other.waiting;
    return *this;
  }
};

/// One thread's counter of one stage: written by its thread alone, read by anyone without stopping it. Monotonic.
class alignas(64) StageCounter {
 public:
  void add(std::uint64_t samples, std::uint64_t bytes, Nanoseconds busy) {
    bump(m_samples, samples);
    bump(m_bytes, bytes);
    bump(m_busy, static_cast<std::uint64_t>(busy));
  }
  void add_failure() { bump(m_failures, 1); }
  void add_waiting(Nanoseconds duration) { bump(m_waiting, static_cast<std::uint64_t>(duration)); }
  [[nodiscard]] StageTotals totals() const {
    return {read(m_samples), read(m_bytes), read(m_failures), static_cast<Nanoseconds>(read(m_busy)), static_cast<Nanoseconds>(read(m_waiting))};
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  static void bump(Word& word, std::uint64_t by) { word.store(word.load(std::memory_order_relaxed) + by, std::memory_order_relaxed); }
  static std::uint64_t read(const Word& word) { return word.load(std::memory_order_relaxed); }
  Word m_samples{0}, m_bytes{0}, m_failures{0}, m_busy{0}, m_waiting{0};
};

}  // namespace dsanalyze
