#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.hpp"
#include "core/order.hpp"

namespace dsanalyze {

/// Where a sampler stands: with the dataset, enough to go on in mid-epoch with the very same stream. Numbers of samples mean nothing in another
/// dataset, so a state that a loader gives names its own.
struct SamplerState {
  std::uint64_t seed = 1;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< samples of this epoch already drawn
  std::uint64_t samples = 0;   ///< of the dataset
  OrderSpec order;
  std::uint32_t batch_size = 0;  ///< of all slices, when it was saved; 0: of none
  std::string digest{};          ///< of the dataset's index; empty: of none, for a stream that begins

  /// Throws UsageError that names the difference when the state was saved with another dataset, or in mid-epoch with another batch size.
  void require_fit(std::string_view dataset_digest, std::uint64_t dataset_samples, std::uint32_t batch) const;

  /// One line of text and back; parse throws UsageError for anything else.
  [[nodiscard]] std::string serialise() const;
  static SamplerState parse(std::string_view text);
  bool operator==(const SamplerState&) const = default;
};

/// Yields the global mini-batches of an epoch in the order that the state names: a pure function of (seed, epoch, order, dataset). Every sample (of
/// the node's shards) once an epoch; the short last batch is kept, nothing is padded. Threads: one.
class Sampler {
 public:
  /// `records` must outlive the sampler; a random order needs none. Throws UsageError for a state of another number of samples than there are
  /// records, or that stands behind the epoch's end, or of a node without shards.
  Sampler(const SamplerState& start, std::uint32_t batch_size, std::span<const IndexRecord> records = {});

  /// The next batch's ids, valid until the next call; `epoch` and `last` say which epoch it is of and whether it ends it. Goes on for ever.
  std::span<const SampleId> next(std::uint64_t& epoch, bool& last);
  /// The samples that storage should be asked for now, in the order of reading: those of the batch that next() gave last and, with a shuffle buffer,
  /// as many ahead as it holds. Over an epoch's batches each sample comes once. To be called once after each next(); valid until then.
  std::span<const SampleId> ahead();
  /// Shuffles now for the epoch that comes next, instead of in next(). The last batch's ids are invalid from then on.
  void prepare() {
    if (m_order_epoch != m_state.epoch) shuffle();
  }
  /// Of the batches to come. Only at an epoch's start: in mid-epoch, the batches before would not be what another sampler gives.
  void set_batch_size(std::uint32_t samples) { m_batch_size = samples; }
  [[nodiscard]] const SamplerState& state() const { return m_state; }

 private:
  void shuffle();
  SamplerState m_state;
  std::uint32_t m_batch_size;
  std::span<const IndexRecord> m_records;
  EpochOrder m_order;
  std::uint64_t m_order_epoch = UINT64_MAX;
  std::uint64_t m_batch_begin = 0;  ///< of the last batch, in the order of training
  std::uint64_t m_batch_end = 0;
  std::uint64_t m_asked = 0;            ///< of the order of storage
  std::vector<SampleId> m_catching_up;  ///< after a resume: what the buffer held then
  std::vector<SampleId> m_caught_up;
};

}  // namespace dsanalyze
