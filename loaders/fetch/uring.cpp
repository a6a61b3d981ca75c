#include "uring.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr const char* too_old = "the kernel is too old: Linux 5.15 or later is needed";

std::string refusal_of_setup(int error) {
  switch (error) {
    case ENOSYS:
      return "the kernel has no io_uring, or a container hides it";
    case EPERM:
    case EACCES: {
      int level = 0;
      std::ifstream("/proc/sys/kernel/io_uring_disabled") >> level;
      if (level == 2) return "the system forbids it (kernel.io_uring_disabled = 2)";
      if (level == 1) return "the system forbids it to this user (kernel.io_uring_disabled = 1; see kernel.io_uring_group)";
      return "a security profile forbids it, as those of containers do (Docker: --security-opt seccomp=PROFILE)";
    }
    case ENOMEM:
      return "the limit of locked memory is too low for it (ulimit -l)";
    case EMFILE:
    case ENFILE:
      return "too many files are open (ulimit -n)";
    default:
      return describe_errno(error);
  }
}

[[noreturn]] void refuse(const std::string& reason) { throw Error(reason); }

/// The best kind of ring that this kernel has: each of the later sets does without what came last to Linux.
int set_up(unsigned entries, io_uring& ring) {
  constexpr unsigned always = IORING_SETUP_CLAMP | IORING_SETUP_R_DISABLED;
  constexpr std::array<unsigned, 4> sets = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL,  // 6.1
                                            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,   // 6.0
                                            IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,                                // 5.19
                                            0};
  int result = 0;
  for (const unsigned set : sets) {
    io_uring_params parameters{};
    parameters.flags = always | set;
    result = io_uring_queue_init_params(entries, &ring, &parameters);
    if (result == 0 && (parameters.features & IORING_FEAT_EXT_ARG) == 0) {
      io_uring_queue_exit(&ring);
      refuse(too_old);
    }
    if (result != -EINVAL) break;
  }
  return result;
}

/// Opens a folder into the ring's table and closes it there, in one chain. False when it was interrupted.
bool try_chain(Uring& ring) {
  bool interrupted = false;
  ring.make_room(2);
  io_uring_sqe* entry = ring.next();
  io_uring_prep_openat_direct(entry, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0, 0);
  entry->flags |= IOSQE_IO_LINK;
  entry = ring.next();
  io_uring_prep_close_direct(entry, 0);
  for (int completed = 0; completed < 2;) {
    ring.wait(std::chrono::seconds(1));
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(ring.get(), &completion) == 0) {
      const int result = completion->res;
      io_uring_cqe_seen(ring.get(), completion);
      ++completed;
      if (result == -EINVAL || result == -EOPNOTSUPP) refuse(too_old);
      if (result == -EACCES || result == -EPERM) refuse("a security profile forbids it to open files");
      interrupted |= result == -EINTR;
      if (result < 0 && !interrupted) refuse(describe_errno(-result));
    }
  }
  return !interrupted;
}

}  // namespace

Uring::Uring(unsigned entries, unsigned files) {
  const int result = set_up(entries, m_ring);
  if (result < 0) refuse(refusal_of_setup(-result));
  const std::vector<int> nothing(files, -1);
  const int registered = io_uring_register_files(&m_ring, nothing.data(), files);
  if (registered < 0) {
    io_uring_queue_exit(&m_ring);
    refuse(registered == -EMFILE ? refusal_of_setup(EMFILE) : describe_errno(-registered));
  }
}

Uring::~Uring() { io_uring_queue_exit(&m_ring); }

// io_uring_enable_rings() is declared by liburing 2.3, and not in its library.
Status Uring::start() {
  const int result = io_uring_register(static_cast<unsigned>(m_ring.ring_fd), IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  return result < 0 ? Status{StatusCode::io, -result} : Status{};
}

void Uring::make_room(unsigned count) {
  while (io_uring_sq_space_left(&m_ring) < count) io_uring_submit(&m_ring);
}

void Uring::wait(std::chrono::nanoseconds longest) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  __kernel_timespec time{seconds.count(), (longest - seconds).count()};
  io_uring_cqe* completion = nullptr;
  // Interrupted, or short of memory for now: what was not handed over is, with the next call.
  io_uring_submit_and_wait_timeout(&m_ring, &completion, 1, &time, nullptr);
}

IoSupport try_uring() {
  try {
    Uring ring(4, 1);
    if (const Status started = ring.start(); !started.ok()) refuse(describe_errno(started.detail));
    while (!try_chain(ring)) continue;
    return {true, {}};
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

IoSupport uring_support() {
  static const IoSupport support = try_uring();
  return support;
}

}  // namespace dsanalyze
