#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/index.hpp"

namespace dsanalyze {

/// The samples that the cache awaits from a loader. Each is stored or abandoned by the thread that claims it, once, also when its read never comes
/// back. Threads: any.
class AwaitedSamples {
 public:
  explicit AwaitedSamples(std::size_t samples) : m_words((samples + word_bits - 1) / word_bits) {}

  void add(SampleId sample) { m_words[sample / word_bits].fetch_or(bit_of(sample), std::memory_order_acq_rel); }
  /// False if it is not awaited, or another thread has claimed it.
  bool claim(SampleId sample) { return (m_words[sample / word_bits].fetch_and(~bit_of(sample), std::memory_order_acq_rel) & bit_of(sample)) != 0; }
  /// Claims all that are left.
  template <typename Use>
  void claim_all(const Use& use) {
    for (std::size_t word = 0; word < m_words.size(); ++word) {
      for (std::uint64_t left = m_words[word].exchange(0, std::memory_order_acq_rel); left != 0; left &= left - 1)
        use(static_cast<SampleId>(word * word_bits + static_cast<std::size_t>(std::countr_zero(left))));
    }
  }

 private:
  static constexpr std::size_t word_bits = 64;
  static std::uint64_t bit_of(SampleId sample) { return std::uint64_t{1} << (sample % word_bits); }

  std::vector<std::atomic<std::uint64_t>> m_words;
};

}  // namespace dsanalyze
