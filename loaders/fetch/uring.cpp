#include "uring.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "file_access.hpp"

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

namespace {

/// liburing prepares the entry from scratch, so what says whose it is comes after.
void name(io_uring_sqe* entry, std::uint32_t number, UringStep step, unsigned flags) {
  entry->user_data = UringChains::user_data(number, step);
  entry->flags = static_cast<__u8>(entry->flags | flags);
}

void prepare_advice(io_uring_sqe* entry, unsigned place, std::uint64_t begin, std::uint64_t length, int advice) {
  // An entry's length has 32 bits; 0 is to the file's end.
  io_uring_prep_fadvise(entry, static_cast<int>(place), begin, static_cast<off_t>(std::min<std::uint64_t>(length, UINT32_MAX)), advice);
}

}  // namespace

bool UringChains::add_open(UringRead& read, unsigned place) {
  std::array<char, PATH_MAX>& path = m_paths[read.number];
  if (!m_access.path_of(read.job.request.extent.file, path)) return false;
  read.open_flags = m_access.open_flags();
  io_uring_sqe* entry = m_ring.next();
  // Without O_CLOEXEC, which an entry of the ring's own table cannot have.
  io_uring_prep_openat_direct(entry, m_access.root(), path.data(), read.open_flags & ~O_CLOEXEC, 0, place);
  name(entry, read.number, UringStep::open, IOSQE_IO_LINK);
  ++read.pending;
  return true;
}

/// A soft link: pipes and their like take no advice, and the read that would wait for someone to write is not begun.
void UringChains::add_advice(UringRead& read, unsigned place) {
  io_uring_sqe* entry = m_ring.next();
  prepare_advice(entry, place, 0, 0, read.plan.whole_file ? POSIX_FADV_NORMAL : m_access.read_ahead_advice());
  name(entry, read.number, UringStep::advise, IOSQE_FIXED_FILE | IOSQE_IO_LINK);
  ++read.pending;
}

io_uring_sqe* UringChains::add_read(UringRead& read, unsigned place) {
  read.read_flags = m_access.read_flags(read.plan);
  const auto size = static_cast<unsigned>(std::min(read.plan.size - read.got, largest_read));
  io_uring_sqe* entry = m_ring.next();
  io_uring_prep_read(entry, static_cast<int>(place), read.memory.data() + read.got, size, read.plan.begin + read.got);
  entry->rw_flags = read.read_flags;
  name(entry, read.number, UringStep::read, IOSQE_FIXED_FILE);
  ++read.pending;
  return entry;
}

bool UringChains::read_once(UringRead& read) {
  const auto place = static_cast<unsigned>(m_kept_files + read.number);
  m_ring.make_room(longest);
  if (!add_open(read, place)) return false;
  add_advice(read, place);
  // The file is closed whatever becomes of the read: a short one breaks a soft link, and the byte past the end makes each one short.
  add_read(read, place)->flags |= IOSQE_IO_HARDLINK;
  const DropBehind how = m_access.drop_behind(read.plan);
  if (how == DropBehind::by_call || how == DropBehind::stretches) {
    const std::uint64_t begin = read.plan.begin / page_bytes * page_bytes;
    io_uring_sqe* entry = m_ring.next();
    prepare_advice(entry, place, begin, read.plan.whole_file ? 0 : read.plan.begin + read.plan.size + page_bytes - begin, POSIX_FADV_DONTNEED);
    name(entry, read.number, UringStep::close, IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK);
    ++read.pending;
  }
  io_uring_sqe* entry = m_ring.next();
  io_uring_prep_close_direct(entry, place);
  name(entry, read.number, UringStep::close, 0);
  ++read.pending;
  return true;
}

bool UringChains::open_and_read(UringRead& read) {
  const auto place = static_cast<unsigned>(read.kept);
  m_ring.make_room(longest);
  if (!add_open(read, place)) return false;
  add_advice(read, place);
  add_read(read, place);
  return true;
}

void UringChains::read_kept(UringRead& read) {
  m_ring.make_room(1);
  add_read(read, static_cast<unsigned>(read.kept));
}

void UringChains::drop(std::size_t kept, std::uint64_t begin, std::uint64_t length) {
  m_ring.make_room(1);
  io_uring_sqe* entry = m_ring.next();
  prepare_advice(entry, static_cast<unsigned>(kept), begin, length, POSIX_FADV_DONTNEED);
  name(entry, static_cast<std::uint32_t>(kept), UringStep::drop, IOSQE_FIXED_FILE);
}

void UringChains::await_wake(int descriptor, std::uint64_t& word) {
  m_ring.make_room(1);
  io_uring_sqe* entry = m_ring.next();
  io_uring_prep_read(entry, descriptor, &word, sizeof(word), 0);
  name(entry, 0, UringStep::wake, 0);
}

void UringChains::cancel_all() {
  m_ring.make_room(1);
  io_uring_sqe* entry = m_ring.next();
  io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  name(entry, 0, UringStep::cancel, 0);
}

}  // namespace dsanalyze
