#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bounded_queue.hpp"
#include "batch_assembly.hpp"
#include "core/index.hpp"
#include "ledgers.hpp"
#include "loader.hpp"
#include "loader_item.hpp"
#include "shuffle_window.hpp"
#include "slot_pool.hpp"

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

/// Throws UsageError for more than the tag of a fetch has room for.
void check_tags(std::uint64_t slots, std::uint64_t positions);

/// What the loader's threads share, and what lies between them:
///   LoaderFeeder   ids -> cache lookup -> ready queue or fetch engine
///   LoaderReaper   completions -> ready queue
///   LoaderWorkers  bytes -> cache, prepared sample in its slot -> batch
/// A thread that throws ends the run with its message. Threads: each function any.
struct LoaderFlow {
  LoaderFlow(Loader::Parts given_parts, const LoaderOptions& given_options);
  LoaderFlow(const LoaderFlow&) = delete;
  LoaderFlow& operator=(const LoaderFlow&) = delete;

  [[nodiscard]] bool over() const { return stopping.load(std::memory_order_acquire) || failures.fatal(); }
  [[nodiscard]] Deadline soon() const;
  [[nodiscard]] std::uint32_t slots() const { return parts.staging != nullptr ? parts.staging_slots : pool->slots(); }
  /// Wakes all that waits here, so that it looks again.
  void notify_all();
  /// Items whose bytes are there go to the workers, or wait in the window for their batch.
  void hand_over(std::span<const LoaderWork> items);
  /// So many misses are no longer in flight.
  void settle(std::size_t count);
  /// The buffer of an item goes back to the engine.
  void give_back(const LoaderWork& item);
  /// Of a batch of so many samples.
  [[nodiscard]] std::uint32_t on_gpu(std::size_t samples) const;
  /// An item that the cache awaits goes there; false for any other.
  bool keep(const LoaderWork& item);
  /// The item's encoded bytes, in `scratch` where the cache has them in pieces. `status` is why there is nothing to prepare, otherwise ok.
  std::span<const std::byte> encoded(const LoaderWork& item, std::vector<std::byte>& scratch, Status& status);
  /// The sample of an item is not there.
  void fail(const LoaderWork& item, Status status);
  /// Nothing more comes to be prepared.
  void close_ready();
  /// Items whose bytes are there, to the threads that prepare them.
  void push_ready(std::span<const LoaderWork> items);
  /// So many more samples of a batch are prepared, or failed; the last of them hands the batch over.
  void finish(std::uint32_t entry, std::uint32_t done);

  Loader::Parts parts;
  LoaderOptions options;
  Timing timing;
  TensorShape tensor;            ///< of a full batch
  std::optional<SlotPool> pool;  ///< of batches that next() gives out; without staging
  BatchAssembly assembly;
  std::optional<ShuffleWindow> window;  ///< with a shuffle buffer
  BoundedQueue<LoaderWork> ready;
  BoundedQueue<LoaderWork> ready_for_gpu;
  AwaitedSamples awaited;
  std::uint32_t generation;  ///< in the tags of this loader's fetches
  EpochLedger epochs;
  FailureLedger failures;
  std::vector<StagingClaim> claims;       ///< by entry; with staging
  std::atomic<std::size_t> unsettled{0};  ///< misses in flight, or awaited by the cache
  std::atomic<bool> stopping{false};
  std::atomic<bool> feeding_ended{false};
  Signal room;     ///< the engine may have a place
  Signal settled;  ///< fewer misses are in flight
  Signal asked;    ///< a read is in flight, after none was

 private:
  void make_window();
};

}  // namespace dsanalyze
