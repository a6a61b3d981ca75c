#pragma once

#include <array>
#include <functional>

#include "memory.hpp"
#include "view.hpp"

namespace dsanalyze::staging {

/// The coordinator's side: who takes part, who is gone, which epochs are open. Writes the board alone; jobs' pages and slabs are looked at and
/// never believed. Each step() is one protocol step; a round over all places ends with ready. Threads: one.
class Keeper {
 public:
  using Liveness = std::function<bool(std::uint32_t place)>;
  Keeper(const View& view, Board& board, Liveness lives, Timing timing) : m_view(view), m_board(board), m_lives(std::move(lives)), m_timing(timing) {}

  /// A free place for a job; `no_job` when there is none. It takes part from the next epoch that opens.
  std::uint32_t admit();
  /// Whether no open epoch needs anything of the place, and its job is gone.
  [[nodiscard]] bool vacant(std::uint32_t place) const { return m_jobs[place].state == Job::State::none; }

  StepResult step(StagingRound& round);
  /// The next epoch may open: the first one without jobs that are missing, a synchronised one when all have released the one before.
  void begin() { m_begun = true; }
  void end() { m_ending = true; }
  [[nodiscard]] StagingStep next_step() const;
  /// All batches below it are released when the epoch opens.
  [[nodiscard]] Sequence opens_at(std::uint64_t epoch) const;

 private:
  struct Job {
    enum class State : std::uint8_t { none, present, gone };
    State state = State::none;
    Sequence released = 0;
    std::uint32_t reports = 0;
    StagingDeparture why = StagingDeparture::left;
  };
  /// What is left of a round: looks, then what follows from them, then epochs.
  enum class Phase : std::uint8_t { looking, closing, uncounting, retrying, announcing, writing, opening, ending };

  StepResult look(StagingRound& round);
  StepResult close_slab();
  StepResult uncount();
  StepResult announce();
  StepResult consider_epoch();
  StepResult open();
  [[nodiscard]] bool sound(const Job& job, std::uint32_t place) const;
  [[nodiscard]] bool sound_page(const Job& job, const ControlPage& page) const;
  [[nodiscard]] bool sound_slab(const SlabHead& slab) const;
  [[nodiscard]] JobSet candidates(std::uint64_t epoch) const;
  [[nodiscard]] bool due(std::uint64_t epoch, JobSet jobs) const;
  [[nodiscard]] bool in_open_epoch(std::uint32_t place) const;
  bool take_report(std::uint32_t place, StagingRound& round);
  OpenEpoch* with_bit(std::uint32_t place, std::atomic<JobSet> OpenEpoch::*set);
  StepResult did(StagingStep step, Phase then);

  const View& m_view;
  Board& m_board;
  Liveness m_lives;
  Timing m_timing;
  std::array<Job, most_jobs> m_jobs{};
  std::uint32_t m_place = 0;  ///< looked at next
  Phase m_phase = Phase::looking;
  bool m_begun = false;
  bool m_opened_in_round = false;  ///< at most one a round
  bool m_ending = false;
};

}  // namespace dsanalyze::staging
