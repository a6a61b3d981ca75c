#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "group.hpp"

namespace dsanalyze {

/// What other threads ask of a host's thread, and what they read of it. Threads: any, where nothing else is said.
class HostDesk {
 public:
  /// Throws Error without a descriptor.
  explicit HostDesk(Timing timing);

  /// A line to a process, and its hello where that was heard before.
  struct Line {
    struct Hello {
      GroupDemands demands;
      std::uint64_t command = 0;
      MessageSender sender;
    };
    FileDescriptor socket;
    std::optional<Hello> hello{};
  };

  FileDescriptor connect();
  void adopt(Line line);
  void begin() { ask(m_begin); }
  void end() { ask(m_end); }
  void stop() { ask(m_stop); }
  bool wait_over(Deadline deadline);
  [[nodiscard]] GroupHost::State state() const;
  [[nodiscard]] std::vector<GroupJobAccount> accounts() const;

  // The host's thread alone.
  [[nodiscard]] int wake() const { return m_wake.get(); }  ///< readable when something is asked
  void drain() const;
  [[nodiscard]] bool stopped() const { return m_stop.load(); }
  [[nodiscard]] bool take_begin() { return m_begin.exchange(false); }
  [[nodiscard]] bool asked_to_end() const { return m_end.load(); }
  std::vector<Line> take_lines();
  /// Returns its number.
  std::size_t open_account(GroupJobAccount account);
  void close_account(std::size_t account, GroupJobAccount::End end, const std::optional<StagingCounts>& counts);
  /// With the counts of accounts that are open, by number.
  void publish(const GroupHost::State& state, bool none_left, std::span<const std::pair<std::size_t, StagingCounts>> counts);

 private:
  void ask(std::atomic<bool>& what);
  void wake_host() const;

  Timing m_timing;
  FileDescriptor m_wake;
  std::atomic<bool> m_stop{false};
  std::atomic<bool> m_begin{false};
  std::atomic<bool> m_end{false};
  mutable std::mutex m_mutex;
  std::vector<Line> m_lines;
  GroupHost::State m_state;
  std::vector<GroupJobAccount> m_accounts;
  bool m_none_left = false;  ///< of those that took part
  std::atomic<std::uint32_t> m_changes{0};
};

}  // namespace dsanalyze
