#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/bounded_queue.hpp"
#include "core/index.hpp"
#include "core/records/settings.hpp"
#include "sampler.hpp"
#include "slot_pool.hpp"

namespace dsanalyze {

class GpuPrep;

/// The batches being put together, one entry a slot, given out in sequence.
///
/// The feeder begins an entry; workers write samples, mark failures and count down; the one that finishes the last sample closes the gaps that failed
/// samples left, or fills them with good samples of the same batch, and publishes; the consumer takes entries in sequence. Threads: begin() one,
/// take() one, the rest any.
class BatchAssembly {
 public:
  struct Draw {
    ReleaseToken token;
    std::byte* slot = nullptr;
    std::uint64_t sequence = 0;
    std::uint64_t step = 0;
    std::uint32_t slice = 0;
    std::uint32_t slices = 1;
    std::uint64_t epoch = 0;
    bool last = false;
    SamplerState state_after;
    std::uint64_t generation = epoch;  ///< by which its samples are augmented
    std::uint32_t on_gpu = 0;          ///< so many of its first samples are prepared on the GPU
  };

  /// `tensor`: of a full batch. With as many entries as there are slots. `gpu`: where draws have samples on the GPU; must outlive this.
  BatchAssembly(std::uint32_t entries, const TensorShape& tensor, OnError on_error, GpuPrep* gpu = nullptr);

  /// Batches that take() gives out lie in the entry of their sequence.
  [[nodiscard]] std::uint32_t entry_of(std::uint64_t sequence) const { return static_cast<std::uint32_t>(sequence % m_entries.size()); }
  /// Takes the entry, which no batch has any more, writes ids and labels into the draw's slot.
  void begin(std::uint32_t entry, const Draw& draw, std::span<const SampleId> ids, const DatasetIndex& index);
  [[nodiscard]] std::span<std::byte> sample(std::uint32_t entry, std::uint32_t position) const;
  [[nodiscard]] std::uint64_t generation(std::uint32_t entry) const { return m_entries[entry].draw.generation; }
  void mark_failed(std::uint32_t entry, std::uint32_t position);
  /// `done` more samples are finished; true for the call that finishes the batch, which must publish() it.
  bool finish(std::uint32_t entry, std::uint32_t done, Nanoseconds now);
  [[nodiscard]] const Draw& draw(std::uint32_t entry) const { return m_entries[entry].draw; }
  [[nodiscard]] std::uint32_t drawn(std::uint32_t entry) const { return m_entries[entry].drawn; }
  /// Of a finished batch.
  struct Finished {
    std::uint32_t good = 0;
    std::uint32_t failed = 0;
    Nanoseconds ready_at = 0;
  };
  [[nodiscard]] Finished finished(std::uint32_t entry) const;
  /// Of the good samples of a finished batch.
  [[nodiscard]] const SampleSetDigest& digest(std::uint32_t entry) const { return m_entries[entry].digest; }
  void publish(std::uint32_t entry);

  /// The batch of that sequence, if it is published.
  bool take(std::uint64_t sequence, Batch& batch);
  [[nodiscard]] SamplerState state_after(std::uint64_t sequence) const { return m_entries[sequence % m_entries.size()].draw.state_after; }
  /// Batches published and not yet taken.
  [[nodiscard]] std::uint64_t ready() const {
    const std::uint64_t taken = m_taken.load(std::memory_order_acquire);  // first: what is taken was published
    return m_published.load(std::memory_order_relaxed) - taken;
  }
  /// No batch from `sequence` on will come.
  void close(std::uint64_t sequence) { m_end.store(sequence, std::memory_order_release); }
  [[nodiscard]] bool ended_at(std::uint64_t sequence) const { return sequence >= m_end.load(std::memory_order_acquire); }
  /// Notified when a batch is published or the work ends.
  Signal& completed() { return m_completed; }

 private:
  struct Entry {
    Draw draw;
    std::uint32_t drawn = 0;
    std::uint32_t good = 0;
    Nanoseconds ready_at = 0;
    SampleSetDigest digest;
    std::atomic<std::uint32_t> pending{0};
    std::atomic<std::uint32_t> failed{0};
    std::atomic<std::uint64_t> published{0};  // sequence + 1
    std::vector<std::uint8_t> bad;
  };
  void close_gaps(Entry& entry);
  void substitute(Entry& entry);
  void copy_sample(const Entry& entry, std::uint32_t from, std::uint32_t to);
  [[nodiscard]] std::span<SampleId> ids(const Entry& entry) const;
  [[nodiscard]] std::span<std::uint32_t> labels(const Entry& entry) const;

  TensorShape m_tensor;
  SlotLayout m_layout;
  std::size_t m_sample_bytes;
  OnError m_on_error;
  GpuPrep* m_gpu;
  std::vector<Entry> m_entries;
  std::atomic<std::uint64_t> m_end{UINT64_MAX};
  std::atomic<std::uint64_t> m_published{0};
  std::atomic<std::uint64_t> m_taken{0};
  Signal m_completed;
};

}  // namespace dsanalyze
