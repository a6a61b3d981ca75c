#pragma once

#include <atomic>
#include <optional>

#include "memory.hpp"
#include "view.hpp"

namespace dsanalyze::staging {

/// The making side of a job, or of the coordinator. Each step() is one protocol step towards a slot for the first batch that is its to make.
/// Threads: step() one; publish() and wake() any.
class Filler {
 public:
  /// All outlive it; `slab` is its own.
  Filler(const View& view, SlabHead& slab, std::uint32_t place, Timing timing) : m_view(view), m_slab(slab), m_place(place), m_timing(timing) {}

  /// ready: claim() is it.
  StepResult step();
  [[nodiscard]] const StagingClaim& claimed() const { return m_claim; }
  [[nodiscard]] StagingStep next_step() const;

  /// The claim's slot holds the batch. To be followed by wake().
  void publish(const StagingClaim& claim, const StagedFacts& facts);
  void wake(Waiter& waiter);

  /// Whether the slot's batch is published, and no job has announced it. This and withdraw() only while no other call runs.
  [[nodiscard]] bool unannounced(std::uint32_t slot) const;
  /// Takes such a batch back, unless a job has announced it meanwhile. To be followed by wake().
  void withdraw(std::uint32_t slot);

 private:
  enum class Phase : std::uint8_t { choosing, claiming, retracting, retracted };
  StepResult choose();
  StepResult claim();
  StepResult retract();
  StepResult settle_retracted();
  /// The first batch of an earlier epoch than the chosen one's that is not published. The fetches of one epoch end before those of the next begin, so
  /// that what the one stores in the cache is a hit in the other.
  [[nodiscard]] std::optional<Sequence> missing_before_epoch_of(Sequence chosen, Sequence slowest) const;
  StepResult wait_published(Sequence sequence, std::uint32_t board_seen) const;
  StepResult wait(const View::Slowest& slowest, std::uint32_t board_seen) const;
  /// The batch whose release makes room: the oldest in this producer's slots where they are full, else the first that somebody has not released.
  [[nodiscard]] Sequence awaited(Sequence slowest) const;
  [[nodiscard]] bool mine_to_make(Sequence sequence) const;
  [[nodiscard]] bool has(Sequence sequence) const;
  /// Where another thread of this producer has published the slot's batch, it has done with its claim.
  [[nodiscard]] Tag tag(std::uint32_t slot) const { return Tag::of(m_slab.slots[slot].tag.load(std::memory_order_acquire)); }

  const View& m_view;
  SlabHead& m_slab;
  const std::uint32_t m_place;
  const Timing m_timing;
  Phase m_phase = Phase::choosing;
  bool m_was_member = false;
  Sequence m_chosen = 0;
  std::uint32_t m_slot = 0;
  Tag m_retracted;
  StagingClaim m_claim;
};

}  // namespace dsanalyze::staging
