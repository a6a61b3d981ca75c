#include "taker.hpp"

#include <algorithm>

namespace dsanalyze::staging {

StagingStep Taker::next_step() const {
  switch (m_phase) {
    case Phase::outside:
      return StagingStep::enter;
    case Phase::between:
      return StagingStep::announce;
    case Phase::announced:
      return StagingStep::look;
    case Phase::overdue:
      break;
  }
  return StagingStep::report;
}

StepResult Taker::step() {
  m_page.heartbeat.store(m_timing.clock->now(), std::memory_order_relaxed);
  switch (m_phase) {
    case Phase::outside:
      return enter();
    case Phase::between:
      return announce();
    case Phase::announced:
      return look();
    case Phase::overdue:
      break;
  }
  return report();
}

StepResult Taker::wait_for_board(StagingStep step, std::uint32_t seen, std::uint64_t opened) const {
  const Board& board = m_view.board();
  if (board.ended.load(std::memory_order_acquire) != 0) {
    // The last epoch may have opened, and the group ended, since this job looked.
    return {step, m_view.opened() == opened ? Outcome::ended : Outcome::again, nullptr, 0, {}};
  }
  return {step, Outcome::wait, &board.changes, seen, {m_timing.clock->now() + m_view.facts().look_again}};
}

StepResult Taker::enter() {
  const std::uint32_t seen = m_view.board().changes.load(std::memory_order_acquire);  // before looking: what comes after moves it
  const std::uint64_t opened = m_view.opened();
  for (std::uint64_t epoch = m_view.oldest_open(); epoch < opened; ++epoch) {
    const auto of = m_view.members(epoch);
    if (!of || (of->members & bit(m_place)) == 0) continue;
    if ((of->live & bit(m_place)) == 0) {
      if (epoch < m_came_at) continue;
      return out_of(StagingStep::enter, epoch);
    }
    m_next = m_view.start_of(epoch);
    m_taken.store(m_next, std::memory_order_relaxed);
    m_released.store(m_next, std::memory_order_relaxed);
    m_page.released.store(m_next, std::memory_order_seq_cst);
    m_page.taking.store(m_next, std::memory_order_seq_cst);
    PageState joining = PageState::joining;
    if (!m_page.state.compare_exchange_strong(joining, PageState::ready)) return out_of(StagingStep::enter, epoch);
    m_phase = Phase::between;
    return {StagingStep::enter, Outcome::again, nullptr, 0, {}};
  }
  return wait_for_board(StagingStep::enter, seen, opened);
}

StepResult Taker::announce() {
  if (m_next - m_released.load(std::memory_order_acquire) >= m_view.facts().held) return {StagingStep::announce, Outcome::busy, nullptr, 0, {}};
  m_page.taking.store(m_next + 1, std::memory_order_seq_cst);
  m_since = m_timing.clock->now();
  m_retries = m_view.board().retries.load(std::memory_order_acquire);
  m_phase = Phase::announced;
  return {StagingStep::announce, Outcome::again, nullptr, 0, {}};
}

bool Taker::counted(Sequence sequence) const {
  const auto of = m_view.members(m_view.epoch_of(sequence));
  return of && (of->live & bit(m_place)) != 0;
}

StepResult Taker::out_of(StagingStep step, std::uint64_t epoch) const {
  const bool wanted = m_left.load(std::memory_order_relaxed) || epoch > m_last_epoch.load(std::memory_order_relaxed);
  return {step, wanted ? Outcome::ended : Outcome::put_out, nullptr, 0, {}};
}

StepResult Taker::look() {
  const std::uint32_t board_seen = m_view.board().changes.load(std::memory_order_acquire);
  const std::uint64_t epoch = m_view.epoch_of(m_next);
  const std::uint64_t opened = m_view.opened();
  const auto of = m_view.members(epoch);
  if (!of) {
    // It made room, or need not come, or this job went out of the one before.
    const bool last = epoch > m_last_epoch.load(std::memory_order_relaxed);
    if (epoch < opened || last || m_view.uncounted_before(epoch, m_place)) return out_of(StagingStep::look, epoch);
    m_since = m_timing.clock->now();  // no job is to make it yet
    return wait_for_board(StagingStep::look, board_seen, opened);
  }
  if ((of->live & bit(m_place)) == 0) return out_of(StagingStep::look, epoch);
  const std::uint32_t responsible = m_view.responsible(m_next);
  const SlabHead* const slab = responsible == no_job ? nullptr : m_view.slab(responsible);
  const std::uint32_t seen = slab == nullptr ? 0 : slab->changes.load(std::memory_order_acquire);
  const Nanoseconds now = m_timing.clock->now();
  if (const auto found = m_view.find(m_next)) {
    const SlotHeader& header = found->slab->slots[found->slot];
    m_found = *found;
    m_batch = {m_next,
               epoch,
               m_next % m_view.facts().batches_per_epoch,
               found->producer,
               std::min(header.count.load(std::memory_order_relaxed), m_view.facts().batch_size),
               header.failed.load(std::memory_order_relaxed),
               header.ready_at.load(std::memory_order_relaxed),
               {}};
    if (m_last_take != 0) m_iteration = m_iteration == 0 ? now - m_last_take : (7 * m_iteration + now - m_last_take) / 8;
    m_last_take = now;
    m_taken.store(++m_next, std::memory_order_release);
    m_phase = Phase::between;
    return {StagingStep::look, Outcome::ready, nullptr, 0, {}};
  }
  if (const std::uint32_t retries = m_view.board().retries.load(std::memory_order_acquire); retries != m_retries) {
    m_retries = retries;  // it is late, not lost: wait anew
    m_since = now;
  }
  const Nanoseconds overdue = m_since + staging_deadline(m_iteration);
  if (now >= overdue) {
    m_phase = Phase::overdue;
    return {StagingStep::wait_for_batch, Outcome::again, nullptr, 0, {}};
  }
  return {StagingStep::wait_for_batch,
          Outcome::wait,
          slab == nullptr ? nullptr : &slab->changes,
          seen,
          {std::min(now + m_view.facts().look_again, overdue)}};
}

StepResult Taker::report() {
  m_page.reported.store(m_next, std::memory_order_relaxed);
  m_page.reports.fetch_add(1, std::memory_order_release);
  m_since = m_timing.clock->now();
  m_phase = Phase::announced;
  return {StagingStep::report, Outcome::again, nullptr, 0, {}};
}

bool Taker::mark_released(Sequence sequence) {
  const Sequence first = m_released.load(std::memory_order_relaxed);
  if (sequence < first || sequence >= m_taken.load(std::memory_order_acquire)) return false;
  const std::uint64_t mask = std::uint64_t{1} << (sequence - first);
  if ((m_released_ahead & mask) != 0) return false;
  m_released_ahead |= mask;
  return true;
}

std::optional<StagingStep> Taker::step_release(Waiter& waiter) {
  Sequence released = m_released.load(std::memory_order_relaxed);
  if (m_wakes_owed > 0) {
    std::atomic<std::uint32_t>& word = m_page.changes[(released - m_wakes_owed--) % release_words];
    word.fetch_add(1, std::memory_order_release);
    waiter.wake(word, all_waiters);
    return StagingStep::wake_producers;
  }
  if ((m_released_ahead & 1U) == 0) return {};
  for (; (m_released_ahead & 1U) != 0; m_released_ahead >>= 1U) {
    ++released;
    ++m_wakes_owed;
  }
  m_page.released.store(released, std::memory_order_seq_cst);
  m_released.store(released, std::memory_order_release);
  return StagingStep::release;
}

}  // namespace dsanalyze::staging
