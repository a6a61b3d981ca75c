#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "core/dependent/prepared_store.hpp"
#include "group.hpp"
#include "loaders/pipeline.hpp"
#include "share_run.hpp"

namespace dsanalyze {

/// A dependent group: its jobs come, go and read at their own pace, and draw so that they often get the same samples [JOADER]. Threads: one.
class DependentRun final : public ShareRun {
 public:
  struct Spec {
    LoadInputs inputs;  ///< resolved; JobSharing::dependent, at most `jobs` at once
    FetchWay way;
    Bytes cache_bytes = 0;         ///< of the raw cache
    std::uint64_t epochs = 0;      ///< of a job that does not say; 0: until it leaves
    std::uint32_t held = 1;        ///< batches that a job may hold at once
    std::filesystem::path socket;  ///< where jobs find it
    ByteAmount staging;            ///< prepared samples that are kept: bytes, or a fraction of the dataset's samples
    StagingPolicy policy = StagingPolicy::refcnt;
    std::filesystem::path trace;     ///< of the draws; empty: none
    std::filesystem::path resume{};  ///< what save_state() of an earlier run wrote; empty: a new group
  };
  /// `events`: as GroupHost's. Throws as GroupHost and parse_dependent_state(), and Error without the memory that it takes.
  DependentRun(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events);
  ~DependentRun() override;
  DependentRun(const DependentRun&) = delete;
  DependentRun& operator=(const DependentRun&) = delete;

  [[nodiscard]] std::string address() const override;
  [[nodiscard]] const GroupTerms& terms() const override;
  [[nodiscard]] GroupHost::State state() const override;
  [[nodiscard]] std::vector<GroupJobAccount> jobs() const override;
  [[nodiscard]] std::uint32_t first_epoch_waits_for() const override { return 0; }
  void begin() override {}
  bool wait_over(Deadline deadline) override;
  [[nodiscard]] ShareResult finish() override;
  [[nodiscard]] std::string trace_failure() const override;
  void save_state(const std::filesystem::path& path) override;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
