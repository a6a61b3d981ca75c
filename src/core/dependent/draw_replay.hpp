#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "draw_recorder.hpp"
#include "prepared_store.hpp"

namespace dsanalyze {

/// Puts recorded draws before stores of other sizes and policies: what each would have held, and what would have been prepared. The decisions are the
/// coordinator's own (PreparedStore). A job's orders do not depend on the store, so they stay. Throws Error for what no group does: a job that begins
/// an epoch before its last one is over, or draws what it does not need. Takes 12 to 16 bytes a sample, and about 100 a place. Threads: one at a
/// time.
class DrawReplay final : public DrawRecorder {
 public:
  struct Case {
    std::uint32_t places = 0;
    StagingPolicy policy = StagingPolicy::refcnt;
  };
  DrawReplay(std::uint32_t samples, std::span<const Case> cases);

  void began(std::uint32_t job, std::span<const SampleRange> samples) override;
  void ended(std::uint32_t job) override;
  void drew(std::span<const Drawn> round) override;

  struct Counts {
    std::uint64_t prepared = 0;
    std::uint64_t from_store = 0;  ///< samples, once for each job

    bool operator==(const Counts&) const = default;
  };
  [[nodiscard]] const std::vector<Counts>& counts() const { return m_counts; }  ///< by case
  [[nodiscard]] const Counts& recorded() const { return m_recorded; }
  [[nodiscard]] std::uint64_t rounds() const { return m_rounds; }
  [[nodiscard]] std::uint64_t drawn() const { return m_drawn; }  ///< samples, once for each job
  /// Of the jobs that draw under one number, one after another.
  [[nodiscard]] const std::array<std::uint64_t, most_dependent_jobs>& drawn_by() const { return m_drawn_by; }

 private:
  RemainingSets m_sets;
  std::vector<PreparedStore> m_stores;
  std::vector<Counts> m_counts;
  Counts m_recorded;
  std::uint64_t m_rounds = 0;
  std::uint64_t m_drawn = 0;
  std::array<std::uint64_t, most_dependent_jobs> m_drawn_by{};
};

}  // namespace dsanalyze
