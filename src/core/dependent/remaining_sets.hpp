#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/batch.hpp"

namespace dsanalyze {

/// A set of jobs, a bit each.
using JobSet = std::uint64_t;
constexpr std::uint32_t most_dependent_jobs = 64;
constexpr JobSet set_of(std::uint32_t job) { return JobSet{1} << job; }

/// Which samples each job still has to draw in its epoch. Samples that the same jobs need lie together in a cell: the cells are all intersections and
/// differences of the jobs' sets, of which [JOADER, 4.1] keeps some in a tree. A sample takes 12 bytes (and up to 4 more while its cell shrinks),
/// whatever the number of jobs. Threads: one at a time.
class RemainingSets {
 public:
  struct Cell {
    JobSet jobs = 0;
    std::vector<SampleId> samples;
  };

  /// Of a dataset of so many samples, which no job needs.
  explicit RemainingSets(std::uint32_t samples);
  /// With these cells, and those samples that are in none of them needed by no job. Throws UsageError for a sample that is not of the dataset or in
  /// two cells, and for two cells of the same jobs.
  RemainingSets(std::uint32_t samples, std::span<const Cell> cells);

  [[nodiscard]] std::uint32_t samples() const { return static_cast<std::uint32_t>(m_cell_of.size()); }
  /// How many samples the job still needs.
  [[nodiscard]] std::uint64_t remaining(std::uint32_t job) const { return m_remaining[job]; }
  [[nodiscard]] JobSet needed_by(SampleId sample) const { return m_names[m_cell_of[sample]]; }
  /// For each cell, by its number, the jobs that need its samples: in no order, and 0 for numbers that stand for nothing.
  [[nodiscard]] std::span<const JobSet> cells() const { return m_names; }
  [[nodiscard]] std::span<const SampleId> samples_in(std::size_t cell) const { return m_members[cell]; }

  /// The job needs the whole dataset. It must need nothing. Takes a step a cell.
  void add_all(std::uint32_t job);
  /// The job needs these, each at most once. It must need nothing. Takes a step a sample of the dataset.
  void add(std::uint32_t job, std::span<const SampleId> samples);
  /// The job needs nothing any more.
  void remove(std::uint32_t job);
  /// These jobs, which need the sample, do not need it any more.
  void take(SampleId sample, JobSet jobs);

 private:
  std::uint32_t cell_for(JobSet jobs);
  void append(SampleId sample, std::uint32_t cell);
  void move(SampleId sample, std::uint32_t cell);
  void rename(std::uint32_t cell, JobSet jobs);
  void drop(std::uint32_t cell);

  std::vector<JobSet> m_names;                              ///< by cell
  std::vector<std::vector<SampleId>> m_members;             ///< by cell
  std::vector<std::uint32_t> m_unused;                      ///< numbers that stand for nothing
  std::unordered_map<JobSet, std::uint32_t> m_cell_number;  ///< of those that do
  std::vector<std::uint32_t> m_cell_of;                     ///< by sample
  std::vector<std::uint32_t> m_place_of;                    ///< by sample, in its cell
  std::vector<std::uint64_t> m_remaining;                   ///< by job
};

}  // namespace dsanalyze
