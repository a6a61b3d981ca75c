#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "dsanalyze/dsanalyze.h"
#include "share/group_job.hpp"

namespace dsanalyze::client {

/// While it lives, threads that the calling one starts have all signals blocked: the program's handlers run in the program's threads. What is sent to
/// the calling thread meanwhile is delivered afterwards.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    m_changed = ::pthread_sigmask(SIG_SETMASK, &all, &m_before) == 0;
  }
  ~SignalsBlocked() {
    if (m_changed) ::pthread_sigmask(SIG_SETMASK, &m_before, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t m_before{};
  bool m_changed = false;
};

/// How a call ended, and why in words when that is not DSA_OK.
struct Answer {
  dsa_status status = DSA_OK;
  std::string text{};
};

/// Lets one thread in at a time, until a deadline.
class Turn {
 public:
  bool take(Deadline deadline, Timing timing) {
    while (m_taken.exchange(1, std::memory_order_acquire) != 0) {
      if (timing.clock->now() >= deadline.at) return false;
      timing.waiter->wait(m_taken, 1, deadline);
    }
    return true;
  }
  void give(Timing timing) {
    m_taken.store(0, std::memory_order_release);
    timing.waiter->wake(m_taken, 1);
  }

 private:
  std::atomic<std::uint32_t> m_taken{0};
};

/// A membership as programs have it through dsanalyze.h. Threads: any.
class Client {
 public:
  /// `command`: GroupMember::Parts. Is told the terms. Throws as GroupJob.
  Client(FileDescriptor line, GroupDemands demands, std::uint64_t command, Timing timing);

  /// Until let in; signals come through meanwhile. Throws as GroupJob.
  Answer enter(Deadline deadline, const std::function<void(std::uint64_t epoch, double seconds)>& waiting);

  void describe(dsa_terms& terms) const;
  Answer next(dsa_batch& batch, Deadline deadline);
  Answer release(std::uint64_t token);
  int event_descriptor();
  void leave_after(std::uint64_t epoch);
  void leave();
  /// Why no batches come any more; empty while they do.
  [[nodiscard]] std::string failure() const;

 private:
  struct Held {
    std::uint64_t token = 0;  ///< 0: free
    ReleaseToken slot;
  };

  [[nodiscard]] Answer take(Batch& batch, Deadline deadline);
  Answer over(Answer answer);
  [[nodiscard]] Answer ended() const;
  void apply_leave_after();
  void hold(const Batch& batch, dsa_batch& given);

  Timing m_timing;
  GroupJob m_job;
  std::uint64_t m_first_epoch;
  Turn m_turn;  ///< of those who take batches
  std::atomic<bool> m_left{false};
  mutable std::mutex m_mutex;
  std::array<Held, staging_most_held> m_held;
  std::optional<std::uint64_t> m_leave_after;  ///< asked for, not passed on yet
  Answer m_over;                               ///< not DSA_OK: every further take() ends like this
};

}  // namespace dsanalyze::client
