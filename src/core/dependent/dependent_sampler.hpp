#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "remaining_sets.hpp"

namespace dsanalyze {

/// What jobs of one dataset draw together, so that as many as can be get the same sample although each job's order is uniformly random by itself, and
/// each sample comes once an epoch of each job: dependent sampling for n jobs [JOADER, Section 3.1]. D_i is what job i still needs in its epoch; only
/// the jobs that ask take part in a round. Where the paper is silent: jobs are taken in ascending order of |D_i| as it is at the begin of the round,
/// and of equal sizes in the order of their numbers; all draws of a round are from the sets as they were at its begin.
///
/// Two jobs get the same sample with probability |I| / max(|D_1|, |D_2|), the most that can be (Theorem 1). A round takes a step a cell of
/// RemainingSets and a job. Reproducible: a pure function of the seed and of what was called. Threads: one at a time.
class DependentSampler {
 public:
  DependentSampler(std::uint32_t samples, std::uint64_t seed) : m_sets(samples), m_random(seed) {}
  virtual ~DependentSampler() = default;
  DependentSampler(const DependentSampler&) = delete;
  DependentSampler& operator=(const DependentSampler&) = delete;

  /// Where a sampler stands; `cells` without the samples that no job needs.
  struct State {
    std::uint32_t samples = 0;
    std::uint64_t random = 0;
    std::vector<RemainingSets::Cell> cells;
  };
  /// Goes on as the sampler would that gave this state. Throws UsageError for cells that cannot be.
  explicit DependentSampler(const State& state);
  [[nodiscard]] State state() const;
  [[nodiscard]] std::uint64_t random() const { return m_random.state(); }  ///< of state()

  [[nodiscard]] const RemainingSets& sets() const { return m_sets; }

  /// A job (a number below most_dependent_jobs) begins an epoch over the whole dataset, or over a part of it. It must need nothing.
  void begin_epoch(std::uint32_t job) { m_sets.add_all(job); }
  void begin_epoch(std::uint32_t job, std::span<const SampleId> samples) { m_sets.add(job, samples); }
  /// The job ends, or breaks its epoch off.
  void end(std::uint32_t job) { m_sets.remove(job); }

  struct Draw {
    SampleId sample = 0;
    JobSet jobs = 0;  ///< that were given it
  };
  /// One sample for each of these jobs, all of which still need some. Valid until the next call.
  std::span<const Draw> draw(JobSet asking);

 protected:
  /// Uniform in [0, bound): what all choices are made by.
  virtual std::uint64_t below(std::uint64_t bound) { return m_random.below(bound); }

 private:
  struct Candidate {
    std::size_t level = 0;  ///< the least s for which all jobs from s on need the cell's samples
    std::uint32_t cell = 0;
  };
  void sort_jobs(JobSet asking);
  void count_levels();
  SampleId shared_sample(std::size_t above, std::size_t up_to, std::uint64_t among);
  SampleId lone_sample(std::size_t job, std::uint64_t among);
  void give(SampleId sample, std::size_t first, std::size_t end);

  RemainingSets m_sets;
  RandomStream m_random;
  std::vector<std::uint32_t> m_jobs;    ///< that ask, in order
  std::vector<JobSet> m_suffix;         ///< of them: from each on
  std::vector<std::uint64_t> m_shared;  ///< |D_s ∩ ... ∩ D_n| by s
  std::vector<Candidate> m_candidates;  ///< cells that the last job needs
  std::vector<Draw> m_draws;
};

}  // namespace dsanalyze
