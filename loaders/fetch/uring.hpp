#pragma once

#include <liburing.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <span>

#include "base/system/files.hpp"
#include "fetch_engine.hpp"
#include "file_access.hpp"
#include "job_desk.hpp"

namespace dsanalyze {

/// One io_uring with a table of open files that belongs to it. Made by one thread, used by another from start() on.
class Uring {
 public:
  /// Throws Error with the reason, for a person, where the system refuses.
  Uring(unsigned entries, unsigned files);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  /// By the thread that will use it, first thing. Nothing can be asked of a ring that did not start (io).
  Status start();
  /// The ring itself, for liburing's calls.
  io_uring* get() { return &m_ring; }
  /// Room for `count` entries that the kernel gets by one call, so that a chain is not torn.
  void make_room(unsigned count);
  /// An entry of the room that was made.
  io_uring_sqe* next() { return io_uring_get_sqe(&m_ring); }
  /// Hands over what was prepared, and waits until something completed or the time is over.
  void wait(std::chrono::nanoseconds longest);

 private:
  io_uring m_ring{};
};

/// uring_support(), tried out anew.
IoSupport try_uring();

/// One extent that a ring reads. Its number names it in completions, and its place among the ring's files.
struct UringRead {
  FetchJob job;
  ReadPlan plan;
  std::span<std::byte> memory;
  std::uint64_t got = 0;
  std::size_t kept = KeptFiles::nowhere;  ///< entry among the kept files; nowhere: its file is opened and closed for this read
  std::uint32_t number = 0;
  std::uint32_t next_waiting = UINT32_MAX;  ///< in the list of reads that wait for one file to be opened
  int pending = 0;                          ///< completions of its chain that are still to come
  int open_flags = 0;
  int read_flags = 0;
  int open_result = 0;  ///< of opening and advising
  int read_result = 0;
  int retries = 0;
};

/// What a completion is about, in user_data beside the number of the read.
enum class UringStep : std::uint8_t { open, advise, read, close, wake, drop, cancel };

/// Writes a ring's submission entries. The ring's files are the kept ones, then one for each read. Threads: the ring's.
///
/// Each entry has its completion, also the ones that succeed: what a chain's cancelled rest reports when successes are not differs between kernels.
class UringChains {
 public:
  UringChains(Uring& ring, FileAccess& access, std::size_t kept_files, std::size_t reads)
      : m_ring(ring), m_access(access), m_kept_files(kept_files), m_paths(std::make_unique<std::array<char, PATH_MAX>[]>(reads)) {}

  /// Entries that the longest chain takes.
  static constexpr unsigned longest = 5;

  /// Opens, reads, drops, closes. False if the path is too long for one.
  bool read_once(UringRead& read);
  /// Opens the file for its kept entry and reads.
  bool open_and_read(UringRead& read);
  /// Reads from its kept entry.
  void read_kept(UringRead& read);
  /// Drops pages of a kept file. Length 0: all of them. The kernel looks the file up when a worker of its own gets to it, so the entry must keep its
  /// file until the completion, whose number is the entry's.
  void drop(std::size_t kept, std::uint64_t begin, std::uint64_t length);
  /// Reads the word that wakes the ring.
  void await_wake(int descriptor, std::uint64_t& word);
  /// Asks the kernel to give up what is in flight.
  void cancel_all();

  static std::uint64_t user_data(std::uint32_t number, UringStep step) { return number | std::uint64_t{static_cast<std::uint8_t>(step)} << 32; }
  static std::uint32_t number_of(std::uint64_t user_data) { return static_cast<std::uint32_t>(user_data); }
  static UringStep step_of(std::uint64_t user_data) { return static_cast<UringStep>(user_data >> 32); }

 private:
  bool add_open(UringRead& read, unsigned place);
  void add_advice(UringRead& read, unsigned place);
  io_uring_sqe* add_read(UringRead& read, unsigned place);
  io_uring_sqe* add(std::uint32_t number, UringStep step);

  Uring& m_ring;
  FileAccess& m_access;
  std::size_t m_kept_files;
  std::unique_ptr<std::array<char, PATH_MAX>[]> m_paths;
};

}  // namespace dsanalyze
