#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "job_channel.hpp"
#include "profile/profiler.hpp"
#include "share/group.hpp"
#include "trial_search.hpp"

namespace dsanalyze {

/// The processes of a profile's coordinated jobs. None outlives this. Threads: one.
class ChildJobs {
 public:
  /// `inputs` and `host` outlive it.
  ChildJobs(const ProfileInputs& inputs, GroupHost& host, Timing timing) : m_inputs(inputs), m_host(host), m_timing(timing) {}
  /// Kills those that still run.
  ~ChildJobs();
  ChildJobs(const ChildJobs&) = delete;
  ChildJobs& operator=(const ChildJobs&) = delete;

  /// Throws Error when there is no process to be had.
  void start(int job);
  [[nodiscard]] std::size_t running() const;
  /// Whether each that runs takes part in the group.
  [[nodiscard]] bool all_among(std::span<const GroupJobAccount> members) const;
  /// Reads what they say and sees who ended, until the deadline or until one ended.
  void look(Deadline deadline);
  void kill_all();
  /// The standings of all that run, once each of them has ended an epoch and waits to be told what now; in a search.
  [[nodiscard]] std::optional<std::vector<TrialSearch::Standing>> standings() const;
  /// Tells a job what now.
  void answer(int job, const std::string& line);
  /// Of all that were started, in that order; those of jobs that died say so.
  [[nodiscard]] std::vector<JobRecord> records() const;
  /// What went wrong, a sentence each.
  [[nodiscard]] std::vector<std::string> errors() const;

 private:
  struct Child {
    int job = 0;
    std::int64_t process = 0;
    JobChannel channel;
    bool talks = true;
    bool runs = true;
    std::optional<TrialSearch::Standing> standing;  ///< unanswered
    JobRecord record;
    std::string error;
  };
  void read(Child& child);
  void take(Child& child, const std::string& line);
  void reap(Child& child);

  const ProfileInputs& m_inputs;
  GroupHost& m_host;
  Timing m_timing;
  std::vector<Child> m_children;
};

}  // namespace dsanalyze
