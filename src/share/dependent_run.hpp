#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "group.hpp"
#include "group_server.hpp"
#include "loaders/pipeline.hpp"
#include "share_run.hpp"

namespace dsanalyze {

/// A dependent group: its jobs come, go and read at their own pace, and draw so that they often get the same samples [JOADER]. Threads: one.
class DependentRun final : public ShareRun {
 public:
  struct Spec {
    LoadInputs inputs;               ///< resolved; JobSharing::dependent, at most `jobs` at once; prepared samples are kept as the settings say
    Pipeline::Spec pipeline;         ///< how the coordinator loads
    std::uint64_t epochs = 0;        ///< of a job that does not say; 0: until it leaves
    std::uint32_t held = 1;          ///< batches that a job may hold at once
    std::filesystem::path socket;    ///< where jobs find it; empty: they are given their line by connect()
    std::filesystem::path trace{};   ///< of the draws; empty: none
    std::filesystem::path resume{};  ///< what save_state() of an earlier run wrote; empty: a new group
    bool together = false;           ///< nothing is drawn before begin()
  };
  /// `events`: as GroupHost's. Throws as GroupHost and parse_dependent_state(), and Error without the memory that it takes.
  DependentRun(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events);
  ~DependentRun() override;
  DependentRun(const DependentRun&) = delete;
  DependentRun& operator=(const DependentRun&) = delete;

  /// As DependentHost's.
  FileDescriptor connect();
  [[nodiscard]] std::string address() const override;
  [[nodiscard]] const GroupTerms& terms() const override;
  [[nodiscard]] GroupHost::State state() const override;
  [[nodiscard]] std::vector<GroupJobAccount> jobs() const override;
  [[nodiscard]] std::uint32_t first_epoch_waits_for() const override { return 0; }
  void begin() override;
  bool wait_over(Deadline deadline) override;
  [[nodiscard]] ShareResult finish() override;
  [[nodiscard]] std::string trace_failure() const override;
  /// What the coordinator prepared, for whichever job.
  [[nodiscard]] GroupServer::Prepared prepared() const;
  [[nodiscard]] GroupServer::Counts counts() const;
  /// What a job drew, and what was drawn and prepared for all until it had all its samples, or went, or now.
  struct Drawn {
    std::uint64_t drawn = 0;         ///< samples, by it
    std::uint64_t drawn_by_all = 0;  ///< once for each job
    std::uint64_t prepared = 0;
  };
  /// Of the last job of this place; nullopt: it drew nothing.
  [[nodiscard]] std::optional<Drawn> drawn_by(std::uint32_t place) const;
  void save_state(const std::filesystem::path& path) override;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
