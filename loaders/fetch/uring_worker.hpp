#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/system/files.hpp"
#include "file_access.hpp"
#include "job_desk.hpp"
#include "uring.hpp"

namespace dsanalyze {

/// One ring and what is in flight in it. run() is the body of its thread; wake() may be called by any.
class UringWorker {
 public:
  /// Throws Error where io_uring is refused.
  UringWorker(FileAccess& access, JobDesk& desk, std::size_t reads, std::size_t kept_files);

  /// Takes jobs and completes them until the request queue is closed and nothing is in flight, no drop of pages either.
  void run();
  /// There are new jobs: a thread that waits and has room for some looks.
  void wake();
  /// Something other than new jobs has changed.
  void wake_always();

 private:
  struct KeptFile {
    bool open = false;
    std::uint32_t first_waiting = no_request;
    DropMark mark;
    bool ended = false;  ///< its last sample was read: what is left of its pages goes with the last reader
  };
  static constexpr std::uint32_t no_request = UINT32_MAX;

  // uring_worker.cpp: taking jobs, waiting, handing over
  void refuse_all(Status why);
  bool take_jobs();
  bool next_job(FetchJob& job);
  void start(const FetchJob& job);
  void wait();
  void handle(const io_uring_cqe& completion);
  void finish(UringRead& read, Status status);
  void report(const FetchJob& job, Status status, std::span<const std::byte> bytes);
  void hand_over();

  // uring_reads.cpp: one read from its chain to its outcome
  void issue(UringRead& read);
  void issue_again(UringRead& read);
  void settle(UringRead& read);
  void settle_failed_open(UringRead& read);
  void settle_failed_read(UringRead& read);
  void opened(UringRead& read);
  void fail_waiting(KeptFile& file, Status status);
  void drop_pages(const UringRead& read);
  void drop(std::size_t kept, std::uint64_t begin, std::uint64_t length);
  void dropped(std::size_t kept);
  bool close_unused();
  void leave_kept(UringRead& read);
  void unpin(std::size_t kept);

  FileAccess& m_access;
  JobDesk& m_desk;
  FileDescriptor m_wake;
  Uring m_ring;
  UringChains m_chains;
  KeptFiles m_kept;
  std::vector<KeptFile> m_files;  ///< by the numbers of m_kept
  std::vector<UringRead> m_reads;
  std::vector<std::uint32_t> m_free;
  std::array<FetchCompletion, FetchEngine::largest_group> m_finished;
  std::size_t m_finished_count = 0;
  std::size_t m_drops = 0;  ///< in flight
  FetchJob m_held;          ///< waits for its turn
  Nanoseconds m_held_turn = 0;
  bool m_holding = false;
  bool m_wake_awaited = false;
  bool m_gave_up = false;
  std::uint64_t m_wake_word = 0;  ///< written by the kernel
  std::atomic<bool> m_waiting{false};
};

}  // namespace dsanalyze
