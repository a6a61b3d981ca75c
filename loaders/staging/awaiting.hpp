#pragma once

#include <algorithm>

#include "memory.hpp"
#include "view.hpp"

namespace dsanalyze::staging {

/// Looks out for a job's next batches and writes nothing: for a thread that tells an event loop when it is worth to take one. Threads: one.
class Awaiting {
 public:
  /// All outlive it; `page` is the job's own.
  Awaiting(const View& view, const ControlPage& page, std::uint32_t place, Timing timing)
      : m_view(view), m_page(page), m_place(place), m_timing(timing) {}

  /// ready: the next batch that the job has not released, or a later one each time, is there. What to wait for otherwise, or why none will come.
  StepResult look() {
    const Board& board = m_view.board();
    const std::uint32_t board_seen = board.changes.load(std::memory_order_acquire);
    const std::uint64_t opened = m_view.opened();
    const Nanoseconds until = m_timing.clock->now() + m_view.facts().look_again;
    if (!find_place()) {
      if (m_page.state.load(std::memory_order_acquire) == PageState::left) return result(Outcome::ended);
      return board.ended.load(std::memory_order_acquire) != 0 && m_view.opened() == opened ? result(Outcome::ended)
                                                                                           : wait(&board.changes, board_seen, until);
    }
    const std::uint64_t epoch = m_view.epoch_of(m_next);
    const auto of = m_view.members(epoch);
    if (!of && epoch < opened) return result(Outcome::put_out);
    if (of && (of->live & bit(m_place)) == 0) return result((of->members & bit(m_place)) == 0 ? Outcome::ended : Outcome::put_out);
    if (!of) {
      const bool last = epoch > m_page.last_epoch.load(std::memory_order_acquire);
      if (!last && m_view.uncounted_before(epoch, m_place)) return result(Outcome::put_out);
      if (last || (board.ended.load(std::memory_order_acquire) != 0 && m_view.opened() == opened)) return result(Outcome::ended);
      return wait(&board.changes, board_seen, until);
    }
    const std::uint32_t responsible = m_view.responsible(m_next);
    const SlabHead* const slab = responsible == no_job ? nullptr : m_view.slab(responsible);
    const std::uint32_t seen = slab == nullptr ? 0 : slab->changes.load(std::memory_order_acquire);
    if (!m_view.find(m_next)) return wait(slab == nullptr ? nullptr : &slab->changes, seen, until);
    ++m_next;
    return result(Outcome::ready);
  }

 private:
  static StepResult result(Outcome outcome) { return {StagingStep::look, outcome, nullptr, 0, {}}; }
  static StepResult wait(const std::atomic<std::uint32_t>* word, std::uint32_t expected, Nanoseconds until) {
    return {StagingStep::wait_for_batch, Outcome::wait, word, expected, {until}};
  }
  /// False while the job takes part in no open epoch.
  bool find_place() {
    const PageState state = m_page.state.load(std::memory_order_acquire);
    if (state == PageState::ready) m_next = std::max(m_next, m_page.released.load(std::memory_order_acquire));
    if (state != PageState::joining) return state == PageState::ready;
    for (std::uint64_t epoch = m_view.oldest_open(); epoch < m_view.opened(); ++epoch) {
      const auto of = m_view.members(epoch);
      if (!of || (of->live & bit(m_place)) == 0) continue;
      m_next = std::max(m_next, m_view.start_of(epoch));
      return true;
    }
    return false;
  }

  const View& m_view;
  const ControlPage& m_page;
  const std::uint32_t m_place;
  const Timing m_timing;
  Sequence m_next = 0;
};

}  // namespace dsanalyze::staging
