#pragma once

#include <cstdint>
#include <span>

namespace dsanalyze {

/// One well-mixed 64-bit value of up to three: the finaliser of SplitMix64 applied in turn. Stable across versions and machines.
std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0);

/// A reproducible stream of random numbers (SplitMix64), a pure function of its key. Not for secrets. Threads: one a stream.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t key) : m_state(key) {}

  std::uint64_t next();
  /// The key of a stream that goes on as this one will.
  [[nodiscard]] std::uint64_t state() const { return m_state; }
  /// Uniform in [0, 1).
  double uniform();
  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in [0, bound), without bias. Requires bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Normal with mean 0 and deviation 1 (Box-Muller).
  double normal();

 private:
  std::uint64_t m_state;
};

/// Writes a uniformly random order of 0..out.size()-1 (Fisher-Yates), a pure function of the key.
void random_permutation(std::uint64_t key, std::span<std::uint32_t> out);

}  // namespace dsanalyze
