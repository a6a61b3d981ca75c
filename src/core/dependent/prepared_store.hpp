#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/sharing_modes.hpp"
#include "remaining_sets.hpp"

namespace dsanalyze {

/// Which prepared samples are kept for jobs that draw them later, in how many places of one sample each. It decides and remembers; the samples'
/// memory is the caller's. A version (one preparing of a sample) is given to a job once at most, so the store knows who had it. Where the paper is
/// silent: of samples that equally many jobs need the one goes that came first to be needed by so many, a sample that no other job needs is not
/// stored, and one that fewer jobs need than each that is there is not, either. Threads: one at a time.
class PreparedStore {
 public:
  PreparedStore(std::uint32_t places, StagingPolicy policy);

  struct Kept {
    std::uint32_t place = 0;
    std::uint32_t generation = 0;
  };
  /// The version that is there for all of these jobs: none of them had it before. They have it from now on. `needed_by`: the jobs that still need the
  /// sample afterwards.
  std::optional<Kept> take(SampleId sample, JobSet jobs, JobSet needed_by);
  /// A version was prepared, and these jobs have it. Returns the place in which it is to be kept; nullopt: nowhere. An older version of the sample is
  /// gone then.
  std::optional<std::uint32_t> add(SampleId sample, std::uint32_t generation, JobSet jobs, JobSet needed_by);
  /// A job has begun an epoch, which changes who needs what. Takes a step a kept sample.
  void renew(const RemainingSets& sets);
  /// The job is gone: what it had is forgotten, as its number may be another job's later. Takes a step a kept sample.
  void forget(std::uint32_t job, const RemainingSets& sets);

  [[nodiscard]] std::size_t kept() const { return m_entries.size(); }
  [[nodiscard]] std::uint32_t places() const { return m_places; }

 private:
  using Line = std::list<SampleId>;
  struct Entry {
    Kept kept;
    JobSet had = 0;
    Line::iterator at;
    std::size_t line = 0;
  };
  using Entries = std::unordered_map<SampleId, Entry>;
  [[nodiscard]] std::size_t line_for(JobSet still_to_come) const;
  void drop(Entries::iterator entry);

  std::uint32_t m_places;
  StagingPolicy m_policy;
  Entries m_entries;
  std::array<Line, most_dependent_jobs + 1> m_lines;  ///< by the number of jobs that still need them; what goes first is first. LRU: all in the first
  std::vector<std::uint32_t> m_free;
};

}  // namespace dsanalyze
