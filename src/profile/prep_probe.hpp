#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "loaders/prep/prep.hpp"

namespace dsanalyze {

/// Prepares a few encoded samples in turn, ten a second, from a thread of its own on the CPUs of the workers, beside whatever runs there, and takes
/// the time by the CPU's clock of that thread: how fast the cores are, not how busy. It takes about 1 % of one core.
class PrepProbe {
 public:
  /// `samples` are whole encoded samples, at least one; `factory` must outlive it. Throws std::system_error when no
  /// thread can be made.
  PrepProbe(std::vector<std::vector<std::byte>> samples, const PrepFactory& factory, std::vector<int> cpus, Timing timing);

  /// Ends it. The mean CPU seconds of a sample over whole turns, so that it is always of the same samples; 0 when not one turn was complete.
  double end();

 private:
  void run(const std::stop_token& stop);

  std::vector<std::vector<std::byte>> m_samples;
  std::unique_ptr<Prep> m_prep;
  std::vector<std::byte> m_output;
  std::vector<int> m_cpus;
  Timing m_timing;
  double m_seconds = 0;  ///< of whole turns
  std::size_t m_turns = 0;
  std::jthread m_thread;
};

}  // namespace dsanalyze
