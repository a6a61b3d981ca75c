#include "uring_chains.hpp"

#include <fcntl.h>

#include <algorithm>

#include "kernel_reads.hpp"

namespace dsanalyze {
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
