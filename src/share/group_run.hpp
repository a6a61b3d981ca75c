#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "group.hpp"
#include "loaders/pipeline.hpp"
#include "share_run.hpp"

namespace dsanalyze {

class GroupServer;

/// A group whose jobs go through its epochs in step. Threads: one.
class GroupRun final : public ShareRun {
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
  ~GroupRun() override;
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  [[nodiscard]] std::string address() const override;
  [[nodiscard]] const GroupTerms& terms() const override;
  [[nodiscard]] GroupHost::State state() const override;
  [[nodiscard]] std::vector<GroupJobAccount> jobs() const override;
  [[nodiscard]] std::uint32_t first_epoch_waits_for() const override { return terms().staging.jobs; }
  void begin() override;
  bool wait_over(Deadline deadline) override;
  [[nodiscard]] ShareResult finish() override;

 private:
  std::unique_ptr<GroupServer> m_server;
};

}  // namespace dsanalyze
