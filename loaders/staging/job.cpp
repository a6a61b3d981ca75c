#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "awaiting.hpp"
#include "base/error.hpp"
#include "call_cost.hpp"
#include "stepping.hpp"
#include "taker.hpp"

namespace dsanalyze {

struct StagingJob::State {
  State(FileDescriptor given_board, std::function<bool()> coordinator_lives, Timing timing, StagingObserver observer)
      : board(attach_board(std::move(given_board))),
        facts(staging::board_of(board)->facts),
        view(*staging::board_of(board)),
        mapped(view),
        stepping{timing, std::move(observer), std::move(coordinator_lives), mapped},
        page(staging::make_page()) {
    if (facts.producers == Producers::jobs) slab = staging::make_slab(facts);
  }

  static MemorySegment attach_board(FileDescriptor descriptor) {
    MemorySegment segment = staging::attach_sealed(std::move(descriptor), sizeof(staging::Board));
    const staging::Board& board = *staging::board_of(segment);
    if (board.mark.load() != staging::board_mark || board.written_by != staging::version) {
      throw Error(fmt::format("cannot join the group: its board is of version {}, this program's is {}; start both from the same version",
                              board.written_by, staging::version));
    }
    board.facts.validate();
    return segment;
  }

  MemorySegment board;
  const StagingFacts facts;
  staging::View view;
  staging::Mapped mapped;
  staging::Stepping stepping;
  MemorySegment page;
  MemorySegment slab;
  std::optional<staging::Taker> taker;
  std::optional<staging::Filler> filler;
  std::optional<staging::Awaiting> awaiting;
  std::uint32_t place = staging::no_job;
  const pid_t process = ::getpid();
  /// By batch: its memory stays mapped while it is held, whatever is detached.
  std::array<std::shared_ptr<const void>, staging_most_held> kept;
  staging::CallCost taking, releasing, claiming, publishing;
  [[nodiscard]] Nanoseconds control_time() const { return taking.total() + releasing.total() + claiming.total() + publishing.total(); }
};

StagingJob::StagingJob(FileDescriptor board, std::function<bool()> coordinator_lives, Timing timing, StagingObserver observer)
    : m_state(std::make_unique<State>(std::move(board), std::move(coordinator_lives), timing, std::move(observer))) {}
StagingJob::~StagingJob() {
  // A child that was forked has this object too, and its page, but is not the job.
  if (m_state->taker && m_state->process == ::getpid()) m_state->taker->leave();
}

const StagingFacts& StagingJob::facts() const { return m_state->facts; }
int StagingJob::page() const { return m_state->page.descriptor(); }
int StagingJob::slab() const { return m_state->slab.descriptor(); }

void StagingJob::join(std::uint32_t place) {
  State& state = *m_state;
  if (place >= staging::most_jobs || state.taker) {
    throw Error(fmt::format("cannot join the group at place {}: no such place, or joined already", place));
  }
  state.place = place;
  state.view.map_page(place, staging::page_of(state.page));
  state.taker.emplace(state.view, *staging::page_of(state.page), place, state.stepping.timing);
  state.awaiting.emplace(state.view, *staging::page_of(state.page), place, state.stepping.timing);
  if (state.slab.size() == 0) return;
  state.view.map_slab(place, staging::slab_of(state.slab));
  state.filler.emplace(state.view, *staging::slab_of(state.slab), place, state.stepping.timing);
}

void StagingJob::attach(std::uint32_t place, FileDescriptor page, FileDescriptor slab) {
  State& state = *m_state;
  if (place > staging::most_jobs || place == state.place) throw Error(fmt::format("cannot attach the job at place {}: no such place", place));
  state.mapped.attach(place, page.valid() ? staging::attach_sealed(std::move(page), sizeof(staging::ControlPage)) : MemorySegment(),
                      slab.valid() ? staging::attach_sealed(std::move(slab), staging::slab_bytes(state.facts)) : MemorySegment());
}

void StagingJob::detach(std::uint32_t place) {
  if (place <= staging::most_jobs && place != m_state->place) m_state->mapped.detach(place);
}

Status StagingJob::take(StagedBatch& batch, Deadline deadline) {
  State& state = *m_state;
  std::shared_ptr<const void> kept;
  const Status status = state.taking.of([&] { return state.stepping.run(*state.taker, deadline, kept); });
  if (!status.ok()) return status;
  batch = state.taker->batch();
  const staging::View::Place found = state.taker->found();
  batch.bytes = staging::slot_of(found.slab, state.facts, found.slot);
  state.kept[batch.sequence % staging_most_held] = std::move(kept);
  staging::CountWords& counts = staging::page_of(state.page)->counts;
  counts.samples_taken.fetch_add(batch.count, std::memory_order_relaxed);
  counts.batches_taken.fetch_add(1, std::memory_order_relaxed);
  counts.control_time.store(static_cast<std::uint64_t>(state.control_time()), std::memory_order_relaxed);
  return {};
}

Status StagingJob::release(std::uint64_t sequence) {
  State& state = *m_state;
  const bool counted = state.taker->counted(sequence);
  if (!state.taker->mark_released(sequence)) return {StatusCode::corrupt, 0};
  state.kept[sequence % staging_most_held].reset();
  return state.releasing.of([&]() -> Status {
    state.stepping.observe(StagingStep::release);
    if (state.taker->step_release(*state.stepping.timing.waiter)) {
      state.stepping.observe(StagingStep::wake_producers);
      while (state.taker->step_release(*state.stepping.timing.waiter)) continue;
    }
    return {counted ? StatusCode::ok : StatusCode::cancelled, 0};
  });
}

void StagingJob::leave_after(std::uint64_t epoch) { m_state->taker->leave_after(epoch); }

void StagingJob::leave() {
  m_state->stepping.observe(StagingStep::leave);
  m_state->taker->leave();
}

Status StagingJob::claim(StagingClaim& claim, Deadline deadline) {
  State& state = *m_state;
  if (!state.filler) return {StatusCode::unsupported, 0};
  return state.claiming.of([&] { return state.stepping.claim(*state.filler, staging::slab_of(state.slab), state.facts, claim, deadline); });
}

void StagingJob::publish(const StagingClaim& claim, const StagedFacts& facts) {
  State& state = *m_state;
  staging::CountWords& counts = staging::page_of(state.page)->counts;  // before others may see the batch
  counts.batches_made.fetch_add(1, std::memory_order_relaxed);
  counts.samples_made.fetch_add(facts.count, std::memory_order_relaxed);
  if (state.view.members(claim.epoch) && !state.view.at_home(claim.sequence, state.place)) {
    counts.batches_taken_over.fetch_add(1, std::memory_order_relaxed);
  }
  state.publishing.of([&] { return state.stepping.publish(*state.filler, claim, facts), 0; });
}

void StagingJob::note_requested(Bytes bytes) { staging::page_of(m_state->page)->counts.requested_bytes.store(bytes, std::memory_order_relaxed); }

Status StagingJob::await(Deadline deadline) {
  State& state = *m_state;
  const Timing timing = state.stepping.timing;
  while (true) {
    const auto kept = state.mapped.keep();
    const staging::StepResult seen = state.awaiting->look();
    if (seen.outcome == staging::Outcome::ready) return {};
    if (seen.outcome == staging::Outcome::ended) return {StatusCode::end, 0};
    if (seen.outcome == staging::Outcome::put_out) return {StatusCode::cancelled, 0};
    if (!state.stepping.coordinator_lives()) return {StatusCode::io, EPIPE};
    if (timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
    const Deadline until{std::min(seen.until.at, deadline.at)};
    if (seen.word == nullptr) {
      timing.waiter->sleep_until(until.at);
    } else {
      timing.waiter->wait(*seen.word, seen.expected, until);
    }
  }
}

}  // namespace dsanalyze
