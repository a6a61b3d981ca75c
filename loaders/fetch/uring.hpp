#pragma once

#include <liburing.h>

#include <chrono>
#include <string>

#include "base/system/files.hpp"
#include "fetch_engine.hpp"

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

}  // namespace dsanalyze
