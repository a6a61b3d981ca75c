#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/records/share_result.hpp"
#include "group.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze {

class GroupServer;

/// A group for jobs that other programs are, from its start to its result. Threads: one.
class GroupRun {
 public:
  struct Spec {
    LoadInputs inputs;  ///< resolved; JobSharing::coordinated
    FetchWay way;
    Bytes cache_bytes = 0;         ///< of the raw cache
    std::uint64_t epochs = 0;      ///< 0: until all jobs have left
    std::uint32_t held = 1;        ///< batches that a job may hold at once
    std::filesystem::path socket;  ///< where jobs find it
  };
  /// `events`: as GroupHost's. Throws as GroupHost, and Error without the memory that it takes.
  GroupRun(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events);
  /// Jobs that still take part lose their group.
  ~GroupRun();
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  [[nodiscard]] std::string address() const;
  [[nodiscard]] const GroupTerms& terms() const;
  [[nodiscard]] GroupHost::State state() const;
  /// As GroupHost's accounts().
  [[nodiscard]] std::vector<GroupJobAccount> jobs() const;
  /// The first epoch does not wait for jobs that are missing.
  void begin();
  /// True once no job takes part any more, and one did; false at the deadline. Throws Error when the coordinator cannot prepare any more.
  bool wait_over(Deadline deadline);
  /// Prepares no more, and says what there was; `tool`, `started_utc`, `seconds`, `end` and `commands` are the caller's to fill in. What jobs did is
  /// as the host saw it last; after wait_over() it is all.
  [[nodiscard]] ShareResult finish();

 private:
  std::unique_ptr<GroupServer> m_server;
};

}  // namespace dsanalyze
