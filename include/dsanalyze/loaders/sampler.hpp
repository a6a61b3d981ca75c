#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsanalyze/core/batch.hpp"

namespace dsanalyze {

/// Where a sampler stands: enough, with its parameters, to go on in mid-epoch with the very same stream.
struct SamplerState {
  std::uint64_t seed = 1;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< samples of this epoch already drawn
  std::uint64_t samples = 0;   ///< of the dataset

  /// One line of text and back; parse throws UsageError for anything else.
  [[nodiscard]] std::string serialise() const;
  static SamplerState parse(std::string_view text);
  bool operator==(const SamplerState&) const = default;
};

/// Yields the global mini-batches of an epoch in a uniformly random order: a pure function of (seed, epoch, samples). Every sample once an epoch; the
/// short last batch is kept, nothing is padded. Threads: one.
class Sampler {
 public:
  Sampler(const SamplerState& start, std::uint32_t batch_size);

  /// The next batch's ids, valid until the next call; `epoch` and `last` say which epoch it is of and whether it ends it. Goes on for ever.
  std::span<const SampleId> next(std::uint64_t& epoch, bool& last);
  /// Shuffles now for the epoch that comes next, instead of in next(). The last batch's ids are invalid from then on.
  void prepare() {
    if (m_order_epoch != m_state.epoch) shuffle();
  }
  [[nodiscard]] const SamplerState& state() const { return m_state; }

 private:
  void shuffle();
  SamplerState m_state;
  std::uint32_t m_batch_size;
  std::vector<SampleId> m_order;
  std::uint64_t m_order_epoch = UINT64_MAX;
};

/// Maps the ids of a global mini-batch to ranks: consecutive slices whose sizes differ by at most one.
struct Assignment {
  static std::span<const SampleId> slice(std::span<const SampleId> global, int rank, int world);
};

}  // namespace dsanalyze
