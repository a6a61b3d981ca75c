#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job_channel.hpp"
#include "profile/profiler.hpp"
#include "share/group.hpp"
#include "trial_search.hpp"

namespace dsanalyze {

/// When jobs whose time is over have to have ended.
class JobsDeadline {
 public:
  void set(Deadline deadline) { m_at = deadline; }
  [[nodiscard]] bool is_set() const { return m_at.has_value(); }
  /// Whether jobs that run still are to be killed now: once at most.
  bool expires(Nanoseconds now, std::size_t running) {
    const bool expired = m_at && !m_expired && running > 0 && now >= m_at->at;
    m_expired = m_expired || expired;
    return expired;
  }

 private:
  std::optional<Deadline> m_at;
  bool m_expired = false;
};

/// For people: of so many jobs that were killed then.
std::string did_not_end_text(std::size_t jobs);

/// The processes of a profile's jobs that share. None outlives this. Threads: one.
class ChildJobs {
 public:
  /// `inputs` outlives it; `connect` makes a line to the jobs' host.
  ChildJobs(const ProfileInputs& inputs, std::function<FileDescriptor()> connect, Timing timing)
      : m_inputs(inputs), m_connect(std::move(connect)), m_timing(timing) {}
  /// Kills those that still run.
  ~ChildJobs();
  ChildJobs(const ChildJobs&) = delete;
  ChildJobs& operator=(const ChildJobs&) = delete;

  /// Throws Error when no process can be made.
  void start(const job_messages::Start& start);
  [[nodiscard]] std::size_t running() const;
  /// Of those that were started: the number of the job whose process it is.
  [[nodiscard]] std::optional<int> job_of(std::int64_t process) const;
  /// Whether each that runs takes part in the group.
  [[nodiscard]] bool all_among(std::span<const GroupJobAccount> members) const;
  /// Reads what they say and sees who ended, until the deadline or until one ended.
  void look(Deadline deadline);
  void kill_all();
  /// The standings of all that run, once each of them has ended an epoch and waits to be told what now; in a search.
  [[nodiscard]] std::optional<std::vector<TrialSearch::Standing>> standings() const;
  /// Tells a job what now.
  void answer(int job, const std::string& line);
  /// Tells each that runs, and is in no search, that its time is over.
  void stop_all();
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
  void tell(Child& child, const std::string& line);
  void read(Child& child);
  void take(Child& child, const std::string& line);
  void reap(Child& child);

  const ProfileInputs& m_inputs;
  std::function<FileDescriptor()> m_connect;
  Timing m_timing;
  std::vector<Child> m_children;
};

}  // namespace dsanalyze
