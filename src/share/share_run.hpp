#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/records/share_result.hpp"
#include "group.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze {

/// A group for jobs that other programs are, from its start to its result. Jobs that still take part when it is destroyed lose their group. Threads:
/// one.
class ShareRun {
 public:
  virtual ~ShareRun() = default;

  [[nodiscard]] virtual std::string address() const = 0;
  /// As a job has them that demands nothing.
  [[nodiscard]] virtual const GroupTerms& terms() const = 0;
  [[nodiscard]] virtual GroupHost::State state() const = 0;
  /// As GroupHost's accounts().
  [[nodiscard]] virtual std::vector<GroupJobAccount> jobs() const = 0;
  /// Jobs take their first batches when this many are there; 0: each job when it comes.
  [[nodiscard]] virtual std::uint32_t first_epoch_waits_for() const = 0;
  /// The first epoch does not wait for jobs that are missing.
  virtual void begin() = 0;
  /// True once no job takes part any more, and one did; false at the deadline. Throws Error when the coordinator cannot prepare any more.
  virtual bool wait_over(Deadline deadline) = 0;
  /// Prepares no more, and says what there was; `tool`, `started_utc`, `seconds`, `end` and `commands` are the caller's to fill in. What jobs did is
  /// as the host saw it last; after wait_over() it is all.
  [[nodiscard]] virtual ShareResult finish() = 0;
  /// Ends the group for its jobs, and writes what a later one goes on from. Before finish(). Throws Error: for a group that cannot be resumed, too.
  virtual void save_state(const std::filesystem::path& path);
  /// After finish(): why there is no trace of what was to be recorded; empty: there is, or it was not asked for.
  [[nodiscard]] virtual std::string trace_failure() const { return {}; }
};

/// How the coordinator of a group for other programs loads.
Pipeline::Spec share_pipeline(const LoadInputs& inputs, FetchWay way, Bytes cache_bytes);

/// Of the dataset, the jobs, and what all of them took: what every kind of group records alike.
ShareResult share_result_of(const DatasetIndex& index, const std::string& path, const GroupTerms& terms, const std::vector<GroupJobAccount>& jobs);

}  // namespace dsanalyze
