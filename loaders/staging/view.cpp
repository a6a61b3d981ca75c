#include "view.hpp"

#include <algorithm>
#include <bit>

namespace dsanalyze::staging {

std::uint32_t count(JobSet jobs) { return static_cast<std::uint32_t>(std::popcount(jobs)); }

std::uint32_t nth(JobSet jobs, std::uint64_t n) {
  for (; n > 0; --n) jobs &= jobs - 1;
  return static_cast<std::uint32_t>(std::countr_zero(jobs));
}

std::optional<View::Members> View::members(std::uint64_t epoch) const {
  const OpenEpoch& entry = m_board.epochs[epoch % 2];
  if (epoch >= opened() || entry.epoch.load(std::memory_order_acquire) != epoch) return {};
  const Members members{entry.members.load(std::memory_order_acquire), entry.live.load(std::memory_order_acquire),
                        entry.readable.load(std::memory_order_acquire)};
  if (entry.epoch.load(std::memory_order_acquire) != epoch || members.members == 0) return {};  // it made room meanwhile
  return members;
}

bool View::uncounted_before(std::uint64_t epoch, std::uint32_t place) const {
  const auto before = epoch == 0 ? std::nullopt : members(epoch - 1);
  return before && (before->members & bit(place)) != 0 && (before->live & bit(place)) == 0;
}

std::uint64_t View::oldest_open() const {
  const std::uint64_t next = opened();
  return std::max(m_facts.first_epoch, next >= 2 ? next - 2 : 0);
}

Sequence View::released(std::uint32_t place) const {
  const ControlPage* const there = page(place);
  const Sequence released = there == nullptr ? 0 : there->released.load(std::memory_order_acquire);
  return released <= start_of(opened()) ? released : 0;  // no job has released what is not open: garbage, or of one who had this place before
}

View::Slowest View::slowest() const {
  const std::uint64_t next = opened();
  Slowest slowest{start_of(next), no_job};
  for (std::uint64_t epoch = oldest_open(); epoch < next; ++epoch) {
    const auto of = members(epoch);
    if (!of) continue;
    for (JobSet left = of->live; left != 0; left &= left - 1) {
      const std::uint32_t place = nth(left, 0);
      const Sequence position = std::max(released(place), start_of(epoch));
      if (position < start_of(epoch + 1) && position < slowest.position) slowest = {position, place};
    }
  }
  return slowest;
}

bool View::released_by_all(Sequence sequence) const {
  const std::uint64_t epoch = epoch_of(sequence);
  if (epoch >= opened()) return false;
  const auto of = members(epoch);
  if (!of) return true;  // an epoch makes room when all have released all of it
  for (JobSet left = of->live; left != 0; left &= left - 1) {
    if (released(nth(left, 0)) <= sequence) return false;
  }
  return true;
}

bool View::held(Sequence sequence) const {
  const auto of = members(epoch_of(sequence));
  for (JobSet left = of ? of->live : 0; left != 0; left &= left - 1) {
    const ControlPage* const there = page(nth(left, 0));
    if (there == nullptr) return true;  // it is not introduced yet, and may be reading
    if (there->state.load(std::memory_order_seq_cst) == PageState::joining) continue;
    // Together with the consumer's announce and look, in one total order with retract and this: either the job does not find the batch, or it is
    // seen here.
    if (there->released.load(std::memory_order_seq_cst) <= sequence && sequence < there->taking.load(std::memory_order_seq_cst)) return true;
  }
  return false;
}

std::uint32_t View::responsible(Sequence sequence) const {
  const auto of = members(epoch_of(sequence));
  if (!of) return no_job;
  if (m_facts.producers == Producers::coordinator) return coordinator_place;
  if (of->live == 0) return no_job;
  const std::uint64_t index = sequence % m_facts.batches_per_epoch;
  const std::uint32_t jobs = count(of->members);
  const std::uint32_t home = nth(of->members, index % jobs);
  if ((of->live & bit(home)) != 0) return home;
  return nth(of->live, index / jobs % count(of->live));
}

bool View::at_home(Sequence sequence, std::uint32_t place) const {
  if (m_facts.producers == Producers::coordinator) return place == coordinator_place;
  const auto of = members(epoch_of(sequence));
  return of && nth(of->members, sequence % m_facts.batches_per_epoch % count(of->members)) == place;
}

template <typename Visit>
bool View::any_producer(JobSet jobs, const Visit& visit) const {
  if (m_facts.producers == Producers::coordinator) return visit(coordinator_place);
  for (JobSet left = jobs; left != 0; left &= left - 1) {
    if (visit(nth(left, 0))) return true;
  }
  return false;
}

std::optional<View::Place> View::slot_with(std::uint32_t producer, Tag tag) const {
  const SlabHead* const there = slab(producer);
  const std::uint32_t slots = there == nullptr ? 0 : m_facts.slots();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    if (there->slots[slot].tag.load(std::memory_order_seq_cst) == tag.word()) return Place{producer, slot, there};
  }
  return {};
}

std::optional<View::Place> View::find(Sequence sequence) const {
  const auto of = members(epoch_of(sequence));
  if (!of) return {};
  std::optional<Place> found;
  any_producer(of->readable, [&](std::uint32_t producer) {
    found = slot_with(producer, {sequence, SlotState::published});
    return found.has_value();
  });
  return found;
}

bool View::in_hand(Sequence sequence) const {
  const auto of = members(epoch_of(sequence));
  if (!of) return false;
  return find(sequence).has_value() || any_producer(of->live, [&](std::uint32_t producer) {
           return slot_with(producer, {sequence, SlotState::filling}).has_value();
         });
}

}  // namespace dsanalyze::staging
