#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "group.hpp"
#include "messages.hpp"

namespace dsanalyze {

/// A member's line, and the thread that listens to it.
struct GroupMember::Impl {
  explicit Impl(Parts given);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void greet();
  Status enter(Deadline deadline, const std::function<void(std::uint64_t, double)>& waiting);
  /// Takes the memory that a job needs, and hands it over.
  void hand_over();
  /// In words; empty as long as the host is there.
  [[nodiscard]] std::string failure() const;
  /// The child of a fork is not the member.
  [[nodiscard]] bool forked() const;
  [[nodiscard]] bool host_lives() const { return !lost.load(std::memory_order_acquire) && !stopping.load() && !forked(); }

  /// What the host has said last about letting this job in.
  struct Answer {
    bool come = false;
    bool placed = false;
    std::uint64_t epoch = 0;
    Nanoseconds wait = -1;
    std::uint32_t place = 0;
    std::uint64_t told = 0;  ///< times that it said to wait
    std::string refused;
  };

  Parts parts;
  const pid_t process;
  GroupTerms terms;
  FileDescriptor board;
  std::shared_ptr<const DatasetIndex> index;
  FileDescriptor server_line;
  FileDescriptor event;
  bool asked = false;

  std::unique_ptr<StagingJob> job;  ///< written by enter() before the host is told, used by the listener after it answered
  std::atomic<bool> entered{false};
  std::atomic<bool> lost{false};
  std::atomic<bool> lost_for_memory{false};  ///< written before `lost`
  std::atomic<bool> ended{false};
  std::atomic<bool> stopping{false};
  mutable std::mutex mutex;
  Answer answer;
  std::string why_lost;
  std::atomic<std::uint32_t> changes{0};

  std::mutex watch_begins;
  std::jthread watcher;
  std::jthread listener;

  void listen();
  void hear(group_protocol::Message& message);
  void changed();
  void signal() const;
  void watch();
};

}  // namespace dsanalyze
