#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "call_cost.hpp"
#include "keeper.hpp"
#include "stepping.hpp"

namespace dsanalyze {
namespace {

/// What a thread takes from the system at once: the process's other threads wait so long when they map or unmap memory, and who ends it waits for
/// one.
constexpr std::size_t populated_bytes = std::size_t{8} << 20U;

}  // namespace

struct StagingCoordinator::State final : public StagingProducer {
  State(const StagingFacts& given_facts, Liveness lives, Timing timing, StagingObserver observer, const SlabMemory& memory)
      : facts(checked(given_facts)),
        board(staging::make_board(facts)),
        view(*staging::board_of(board)),
        mapped(view),
        stepping{timing, std::move(observer), [] { return true; }, mapped},
        keeper(view, *staging::board_of(board), std::move(lives), timing) {
    if (facts.producers != Producers::coordinator) return;
    own = staging::make_slab(facts, memory);
    view.map_slab(staging::coordinator_place, staging::slab_of(own));
    filler.emplace(view, *staging::slab_of(own), staging::coordinator_place, timing);
    if (memory.aside) taking = std::jthread([this, before = memory.before_piece](const std::stop_token& stop) { take(stop, before); });
  }
  void take(const std::stop_token& stop, const std::function<void()>& before_piece) {
    for (std::size_t at = 0; at < own.size() && !stop.stop_requested(); at += populated_bytes) {
      if (before_piece) before_piece();
      own.populate(at, populated_bytes);
    }
  }
  static const StagingFacts& checked(const StagingFacts& facts) {
    facts.validate();
    return facts;
  }

  Status claim(StagingClaim& claim, Deadline deadline) override {
    return claiming.of([&] { return stepping.claim(filler.value(), staging::slab_of(own), facts, claim, deadline); });
  }
  void publish(const StagingClaim& claim, const StagedFacts& staged) override {
    publishing.of([&] { return stepping.publish(filler.value(), claim, staged), 0; });
  }

  const StagingFacts facts;
  MemorySegment board;
  staging::View view;
  staging::Mapped mapped;
  staging::Stepping stepping;
  staging::Keeper keeper;
  MemorySegment own;
  std::optional<staging::Filler> filler;
  staging::CallCost claiming, publishing, surveying;
  std::jthread taking;  ///< last: ends before the memory that it takes
};

StagingCoordinator::StagingCoordinator(const StagingFacts& facts, Liveness lives, Timing timing, StagingObserver observer, const SlabMemory& memory)
    : m_state(std::make_unique<State>(facts, std::move(lives), timing, std::move(observer), memory)) {}
StagingCoordinator::~StagingCoordinator() = default;

int StagingCoordinator::board() const { return m_state->board.descriptor(); }

std::uint32_t StagingCoordinator::admit(FileDescriptor page, FileDescriptor slab) {
  State& state = *m_state;
  const bool makes = state.facts.producers == Producers::jobs;
  if (makes != slab.valid()) throw Error(fmt::format("cannot take a job in: it came {} batch slots of its own", makes ? "without" : "with"));
  MemorySegment page_segment = staging::attach_sealed(std::move(page), sizeof(staging::ControlPage));
  MemorySegment slab_segment = makes ? staging::attach_sealed(std::move(slab), staging::slab_bytes(state.facts)) : MemorySegment();
  const std::uint32_t place = state.keeper.admit();
  if (place == staging::no_job) {
    throw Error(fmt::format("cannot take a job in: the group has its {} jobs, or batches of one that went are still in use until the epoch ends",
                            state.facts.jobs));
  }
  state.mapped.attach(place, std::move(page_segment), std::move(slab_segment));
  return place;
}

int StagingCoordinator::page(std::uint32_t place) const { return m_state->mapped.page(place); }

int StagingCoordinator::slab(std::uint32_t place) const {
  return place == staging::coordinator_place ? m_state->own.descriptor() : m_state->mapped.slab(place);
}

StagingProgress StagingCoordinator::progress() const {
  const staging::View& view = m_state->view;
  StagingProgress progress;
  progress.next_epoch = view.opened();
  progress.released = view.slowest().position;
  const staging::Sequence opens_at = m_state->keeper.opens_at(progress.next_epoch);
  progress.until_next = opens_at - std::min(opens_at, progress.released);
  return progress;
}

Bytes StagingCoordinator::promised() const {
  const MemorySegment& own = m_state->own;
  return own.size() == 0 ? 0 : own.size() - std::min(own.size(), own.resident_bytes());
}

StagingCounts StagingCoordinator::counts(std::uint32_t place) const {
  const staging::ControlPage* const page = m_state->view.page(place);
  if (page == nullptr) return {};
  const auto read = [](const std::atomic<std::uint64_t>& word) { return std::min(word.load(std::memory_order_relaxed), StagingCounts::most); };
  const staging::CountWords& words = page->counts;
  return {read(words.batches_taken),
          read(words.samples_taken),
          read(words.batches_made),
          read(words.samples_made),
          read(words.batches_taken_over),
          read(words.requested_bytes),
          static_cast<Nanoseconds>(read(words.control_time))};
}

Nanoseconds StagingCoordinator::control_time() const {
  const State& state = *m_state;
  return state.claiming.total() + state.publishing.total() + state.surveying.total();
}

StagingRound StagingCoordinator::survey() {
  State& state = *m_state;
  StagingRound round;
  state.surveying.of([&] {
    staging::Outcome outcome = staging::Outcome::again;
    while (outcome != staging::Outcome::ready) {
      state.stepping.observe(state.keeper.next_step());
      outcome = state.keeper.step(round).outcome;
    }
    return outcome;
  });
  for (const StagingRound::Departed& gone : round.departed) round.counts.push_back(counts(gone.place));
  for (const std::uint32_t place : round.vacated) state.mapped.detach(place);
  return round;
}

StagingProducer& StagingCoordinator::producer() { return *m_state; }
void StagingCoordinator::begin() { m_state->keeper.begin(); }
void StagingCoordinator::end() { m_state->keeper.end(); }

std::uint64_t StagingCoordinator::withdraw() {
  State& state = *m_state;
  const auto kept = state.mapped.keep();
  staging::Filler& filler = state.filler.value();
  for (std::uint32_t slot = 0; slot < state.facts.slots(); ++slot) {
    if (!filler.unannounced(slot)) continue;
    state.stepping.observe(StagingStep::retract);
    filler.withdraw(slot);
  }
  filler.wake(*state.stepping.timing.waiter);
  staging::Sequence next = state.view.slowest().position;
  while (state.view.find(next)) ++next;
  return next;
}

}  // namespace dsanalyze
