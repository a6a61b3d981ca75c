#pragma once

#include <optional>

#include "memory.hpp"
#include "view.hpp"

namespace dsanalyze::staging {

/// The using side of a job. Each step() is one protocol step; what to wait for is said, not waited for. Threads: step() one, release() one.
class Taker {
 public:
  /// All outlive it; `page` is the job's own.
  Taker(const View& view, ControlPage& page, std::uint32_t place, Timing timing)
      : m_view(view), m_page(page), m_place(place), m_timing(timing), m_came_at(view.opened()) {}

  /// Goes towards the next batch. ready: batch() is it. busy: as many are held as may be.
  StepResult step();
  /// Of the last ready.
  [[nodiscard]] const StagedBatch& batch() const { return m_batch; }
  [[nodiscard]] View::Place found() const { return m_found; }

  /// A batch was read; false for one that is not held. What follows is step_release(), until it has nothing to do.
  bool mark_released(Sequence sequence);
  std::optional<StagingStep> step_release(Waiter& waiter);

  void leave_after(std::uint64_t epoch) {
    m_last_epoch.store(epoch, std::memory_order_relaxed);
    m_page.last_epoch.store(epoch, std::memory_order_release);
  }
  void leave() {
    m_left.store(true, std::memory_order_relaxed);
    m_page.state.store(PageState::left, std::memory_order_release);
  }
  /// Whether a held batch's slot waits for this job. Threads: any.
  [[nodiscard]] bool counted(Sequence sequence) const;
  [[nodiscard]] StagingStep next_step() const;

 private:
  enum class Phase : std::uint8_t { outside, between, announced, overdue };
  StepResult enter();
  StepResult announce();
  StepResult look();
  StepResult report();
  /// There is nothing more in this epoch: because it left, or because it was put out.
  [[nodiscard]] StepResult out_of(StagingStep step, std::uint64_t epoch) const;
  [[nodiscard]] StepResult wait_for_board(StagingStep step, std::uint32_t seen, std::uint64_t opened) const;

  const View& m_view;
  ControlPage& m_page;
  const std::uint32_t m_place;
  const Timing m_timing;
  const std::uint64_t m_came_at;  ///< of epochs before it, another one may have been the member at this place
  Phase m_phase = Phase::outside;
  Sequence m_next = 0;
  View::Place m_found;
  StagedBatch m_batch;
  Nanoseconds m_since = 0;  ///< waits for this batch from then on
  Nanoseconds m_last_take = 0;
  Nanoseconds m_iteration = 0;
  std::uint32_t m_retries = 0;
  std::atomic<std::uint64_t> m_last_epoch{no_epoch};  ///< as it was asked for, whatever becomes of the page
  std::atomic<bool> m_left{false};
  std::atomic<std::uint64_t> m_taken{0};  ///< first not taken
  std::atomic<Sequence> m_released{0};    ///< as on the page
  std::uint64_t m_released_ahead = 0;     ///< bit i: batch m_released + i is released
  std::uint64_t m_wakes_owed = 0;
};

}  // namespace dsanalyze::staging
