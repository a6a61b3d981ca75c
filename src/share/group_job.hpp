#pragma once

#include <functional>
#include <memory>
#include <string>

#include "group.hpp"
#include "load_plan.hpp"

namespace dsanalyze {

/// A job of a group, whole: takes every batch, and prepares its share where the group's jobs do (Producers::jobs). Threads: as BatchSource's.
class GroupJob final : public BatchSource {
 public:
  /// Is told the terms. Throws as GroupMember's.
  GroupJob(GroupMember::Parts parts, HostFacts host);
  /// Leaves; not in a child that was forked.
  ~GroupJob() override;
  GroupJob(const GroupJob&) = delete;
  GroupJob& operator=(const GroupJob&) = delete;

  [[nodiscard]] const GroupTerms& terms() const;
  [[nodiscard]] const LoadPlan& plan() const;
  [[nodiscard]] const LoadInputs& inputs() const;  ///< as the plan and this host have them
  /// The server's cache and emulated devices, as far as this job may use them.
  [[nodiscard]] ServerScope& server();
  [[nodiscard]] GroupMember& member();
  [[nodiscard]] const GroupMember& member() const;
  /// As GroupMember's; then begins to prepare.
  Status enter(Deadline deadline, const std::function<void(std::uint64_t epoch, double seconds)>& waiting = {});

  Status next(Batch& batch, Deadline deadline) override;
  void release(ReleaseToken token) override;
  [[nodiscard]] const std::byte* memory(const Batch& batch) const override;
  /// Leaves the group; counters stand still from then on.
  void stop() override;
  [[nodiscard]] std::string failure() const override;
  /// It cannot go on because memory is short here.
  [[nodiscard]] bool out_of_memory() const;
  /// What this job prepares with; nullptr where the coordinator does, or before enter().
  [[nodiscard]] const Loader* loader() const;
  /// Bytes that reached the device for it so far: none where the coordinator prepares.
  [[nodiscard]] std::optional<Bytes> storage_bytes() const;
  [[nodiscard]] Bytes requested_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
