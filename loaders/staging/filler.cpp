#include "filler.hpp"

#include <algorithm>

namespace dsanalyze::staging {

StagingStep Filler::next_step() const {
  switch (m_phase) {
    case Phase::choosing:
      return StagingStep::choose;
    case Phase::claiming:
      return StagingStep::claim;
    case Phase::retracting:
      return StagingStep::retract;
    case Phase::retracted:
      break;
  }
  return m_view.held(m_retracted.sequence) ? StagingStep::restore : StagingStep::claim;
}

StepResult Filler::step() {
  switch (m_phase) {
    case Phase::choosing:
      return choose();
    case Phase::claiming:
      return claim();
    case Phase::retracting:
      return retract();
    case Phase::retracted:
      break;
  }
  return settle_retracted();
}

bool Filler::has(Sequence sequence) const {
  for (std::uint32_t slot = 0; slot < m_view.facts().slots(); ++slot) {
    const Tag there = tag(slot);
    if (there.state != SlotState::free && there.sequence == sequence) return true;
  }
  return false;
}

bool Filler::mine_to_make(Sequence sequence) const {
  if (m_view.responsible(sequence) != m_place || has(sequence)) return false;
  return m_view.at_home(sequence, m_place) || !m_view.in_hand(sequence);
}

Sequence Filler::awaited(Sequence slowest) const {
  Sequence oldest = 0;
  bool any = false;
  for (std::uint32_t slot = 0; slot < m_view.facts().slots(); ++slot) {
    const Tag there = tag(slot);
    if (there.state == SlotState::free || (there.state == SlotState::published && there.sequence < slowest)) return slowest;
    if (there.state != SlotState::published || (any && there.sequence > oldest)) continue;
    oldest = there.sequence;
    any = true;
  }
  return any ? oldest : slowest;
}

StepResult Filler::wait(const View::Slowest& slowest, std::uint32_t board_seen) const {
  const Nanoseconds until = m_timing.clock->now() + m_view.facts().look_again;
  const Board& board = m_view.board();
  const ControlPage* const page = slowest.place == no_job ? nullptr : m_view.page(slowest.place);
  if (page == nullptr) {
    if (slowest.place == no_job && board.ended.load(std::memory_order_acquire) != 0) {
      // The last epoch may have opened, and the group ended, since this producer looked.
      return {StagingStep::wait_for_room, m_view.slowest().place == no_job ? Outcome::ended : Outcome::again, nullptr, 0, {}};
    }
    return {StagingStep::wait_for_room, Outcome::wait, &board.changes, board_seen, {until}};
  }
  const Sequence batch = awaited(slowest.position);
  const std::atomic<std::uint32_t>& word = page->changes[batch % release_words];
  const std::uint32_t seen = word.load(std::memory_order_acquire);
  // Only now: whether the slowest job, which is the last to release the batch, has still to do so and will move the word.
  const View::Slowest now = m_view.slowest();
  if (now.place != slowest.place || now.position > batch) return {StagingStep::wait_for_room, Outcome::again, nullptr, 0, {}};
  return {StagingStep::wait_for_room, Outcome::wait, &word, seen, {until}};
}

std::optional<Sequence> Filler::missing_before_epoch_of(Sequence chosen, Sequence slowest) const {
  const Sequence start = m_view.start_of(m_view.epoch_of(chosen));
  for (Sequence sequence = slowest; sequence < start; ++sequence) {
    if (!m_view.find(sequence)) return sequence;
  }
  return {};
}

StepResult Filler::wait_published(Sequence sequence, std::uint32_t board_seen) const {
  const Nanoseconds until = m_timing.clock->now() + m_view.facts().look_again;
  const std::uint32_t producer = m_view.responsible(sequence);
  const SlabHead* const slab = producer == no_job ? nullptr : m_view.slab(producer);
  if (slab == nullptr) return {StagingStep::wait_for_room, Outcome::wait, &m_view.board().changes, board_seen, {until}};
  const std::uint32_t seen = slab->changes.load(std::memory_order_acquire);
  if (m_view.find(sequence) || m_view.responsible(sequence) != producer) return {StagingStep::wait_for_room, Outcome::again, nullptr, 0, {}};
  return {StagingStep::wait_for_room, Outcome::wait, &slab->changes, seen, {until}};
}

StepResult Filler::choose() {
  const std::uint32_t board_seen = m_view.board().changes.load(std::memory_order_acquire);
  const std::uint64_t opened = m_view.opened();
  if (m_place != coordinator_place && opened > m_view.facts().first_epoch) {
    const auto of = m_view.members(opened - 1);
    const bool member = of && (of->live & bit(m_place)) != 0;
    const auto before = opened - 1 > m_view.facts().first_epoch ? m_view.members(opened - 2) : of;
    const bool member_before = before && (before->live & bit(m_place)) != 0;
    if (m_was_member && !member && !member_before) return {StagingStep::choose, Outcome::ended, nullptr, 0, {}};
    m_was_member = m_was_member || member;
  }
  const View::Slowest slowest = m_view.slowest();
  const Sequence end = std::min(slowest.position + m_view.facts().window(), m_view.start_of(opened));
  Sequence chosen = slowest.position;
  while (chosen < end && !mine_to_make(chosen)) ++chosen;
  if (chosen >= end) return wait(slowest, board_seen);
  if (const auto missing = missing_before_epoch_of(chosen, slowest.position)) return wait_published(*missing, board_seen);

  m_chosen = chosen;
  std::uint32_t last = no_job;  // of this producer's published batches that no job is reading
  for (std::uint32_t slot = 0; slot < m_view.facts().slots(); ++slot) {
    const Tag there = tag(slot);
    if (there.state == SlotState::free || (there.state == SlotState::published && m_view.released_by_all(there.sequence))) {
      m_slot = slot;
      m_phase = Phase::claiming;
      return {StagingStep::choose, Outcome::again, nullptr, 0, {}};
    }
    if (there.state != SlotState::published || there.sequence < chosen || m_view.held(there.sequence)) continue;
    if (last == no_job || there.sequence > tag(last).sequence) last = slot;
  }
  if (last == no_job) return wait(slowest, board_seen);
  // All slots hold batches that come after one which has become this producer's: no job gets past that one, so the last of them gives way.
  m_slot = last;
  m_retracted = tag(last);
  m_phase = Phase::retracting;
  return {StagingStep::choose, Outcome::again, nullptr, 0, {}};
}

StepResult Filler::retract() {
  m_slab.slots[m_slot].tag.store(0, std::memory_order_seq_cst);
  m_phase = Phase::retracted;
  return {StagingStep::retract, Outcome::again, nullptr, 0, {}};
}

StepResult Filler::settle_retracted() {
  if (!m_view.held(m_retracted.sequence)) return claim();
  m_slab.slots[m_slot].tag.store(m_retracted.word(), std::memory_order_seq_cst);
  m_phase = Phase::choosing;
  return {StagingStep::restore, Outcome::again, nullptr, 0, {}};
}

StepResult Filler::claim() {
  m_slab.slots[m_slot].tag.store(Tag{m_chosen, SlotState::filling}.word(), std::memory_order_seq_cst);
  m_claim = {m_chosen, m_view.epoch_of(m_chosen), m_chosen % m_view.facts().batches_per_epoch, m_slot, {}};
  m_phase = Phase::choosing;
  return {StagingStep::claim, Outcome::ready, nullptr, 0, {}};
}

void Filler::publish(const StagingClaim& claim, const StagedFacts& facts) {
  SlotHeader& header = m_slab.slots[claim.slot];
  header.count.store(facts.count, std::memory_order_relaxed);
  header.failed.store(facts.failed, std::memory_order_relaxed);
  header.ready_at.store(facts.ready_at, std::memory_order_relaxed);
  header.tag.store(Tag{claim.sequence, SlotState::published}.word(), std::memory_order_seq_cst);
}

bool Filler::unannounced(std::uint32_t slot) const {
  const Tag there = tag(slot);
  return there.state == SlotState::published && !m_view.released_by_all(there.sequence) && !m_view.held(there.sequence);
}

void Filler::withdraw(std::uint32_t slot) {
  const Tag there = tag(slot);
  m_slab.slots[slot].tag.store(0, std::memory_order_seq_cst);
  // A job may have announced it meanwhile, and found it: as in settle_retracted().
  if (m_view.held(there.sequence)) m_slab.slots[slot].tag.store(there.word(), std::memory_order_seq_cst);
}

void Filler::wake(Waiter& waiter) {
  m_slab.changes.fetch_add(1, std::memory_order_release);
  waiter.wake(m_slab.changes, all_waiters);
}

}  // namespace dsanalyze::staging
