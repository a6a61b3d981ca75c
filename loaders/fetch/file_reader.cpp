#include "file_reader.hpp"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "file_access.hpp"

namespace dsanalyze {
namespace {

constexpr double most_wait_seconds = 10;  // for a descriptor, while other reads go on: longer than a slow one takes

void drop(int descriptor, std::uint64_t begin, std::uint64_t length) {
  posix_fadvise(descriptor, static_cast<off_t>(begin), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
}

}  // namespace

Status FileReader::open_once(std::uint32_t file, FileDescriptor& descriptor) {
  std::array<char, PATH_MAX> path;
  if (!m_access.path_of(file, path)) return {StatusCode::io, ENAMETOOLONG};
  for (;;) {
    const int flags = m_access.open_flags();
    // A pipe in a file's place must not hold the thread until someone writes to it.
    descriptor = FileDescriptor(openat(m_access.root(), path.data(), flags | O_NONBLOCK));
    if (descriptor.valid()) return {};
    const int error = errno;
    if (error == EINTR || m_access.try_with_access_time(error, flags)) continue;
    return FileAccess::status_of_errno(error);
  }
}

Status FileReader::open_retrying(std::uint32_t file, FileDescriptor& descriptor) {
  for (;;) {
    const std::uint32_t ticket = m_released.ticket();
    const Status status = open_once(file, descriptor);
    const bool too_many = status.code == StatusCode::io && (status.detail == EMFILE || status.detail == ENFILE);
    if (!too_many || !(close_unused() || wait_for_descriptor(ticket))) return status;
  }
}

/// Until another read has ended since `ticket`, which frees one or leaves its file unused. False when all that read wait for one.
bool FileReader::wait_for_descriptor(std::uint32_t ticket) {
  const bool without = m_without.fetch_add(1) + 1 >= m_reading.load();
  const bool hopeless = without && m_released.ticket() == ticket;
  const bool released = !hopeless && m_released.wait(*m_timing.waiter, ticket, m_timing.clock->after(most_wait_seconds));
  m_without.fetch_sub(1);
  return released;
}

/// True if anything was closed.
bool FileReader::close_unused() {
  const std::scoped_lock lock(m_mutex);
  bool closed = false;
  for (std::size_t i = 0; i < m_open.size(); ++i) {
    if (!m_kept.unused(i) || !m_open[i].descriptor.valid()) continue;
    m_kept.forget(i);
    m_open[i] = {};
    closed = true;
  }
  return closed;
}

Status FileReader::begin_use(const FetchRequest& request, const ReadPlan& plan, Use& use) {
  const std::uint32_t file = request.extent.file;
  if (!plan.whole_file) {
    const std::scoped_lock lock(m_mutex);
    use.kept = m_kept.find(file);
    if (use.kept != KeptFiles::nowhere) {
      m_kept.pin(use.kept);
      use.descriptor = m_open[use.kept].descriptor.get();
      return {};
    }
  }
  const Status status = open_retrying(file, use.own);
  use.descriptor = use.own.get();
  if (!status.ok() || plan.whole_file) return status;
  posix_fadvise(use.descriptor, 0, 0, m_access.read_ahead_advice());
  FileDescriptor closed_outside_the_lock;
  const std::scoped_lock lock(m_mutex);
  if (m_kept.find(file) != KeptFiles::nowhere) return {};  // another thread was faster: this descriptor serves one read
  use.kept = m_kept.assign(file);
  if (use.kept == KeptFiles::nowhere) return {};
  m_kept.pin(use.kept);
  closed_outside_the_lock = std::exchange(m_open[use.kept], OpenFile{std::move(use.own), {}, false}).descriptor;
  return {};
}

void FileReader::drop_pages(const FetchRequest& request, const ReadPlan& plan, const Use& use) {
  const DropBehind how = m_access.drop_behind(plan);
  if (how == DropBehind::none || how == DropBehind::by_read) return;
  if (how == DropBehind::stretches && use.kept != KeptFiles::nowhere) {
    DropMark::Stretch stretch;
    {
      const std::scoped_lock lock(m_mutex);
      stretch = m_open[use.kept].mark.passed(request.extent.offset, m_access.reads_span(request.extent));
    }
    if (stretch.length > 0) drop(use.descriptor, stretch.begin, stretch.length);
    return;
  }
  // Outwards to whole pages: the kernel leaves those that the range covers in part.
  const std::uint64_t begin = plan.begin / page_bytes * page_bytes;
  drop(use.descriptor, begin, plan.begin + plan.size + page_bytes - begin);
}

void FileReader::end_use(const FetchRequest& request, const ReadPlan& plan, const Use& use, Status status) {
  if (use.kept == KeptFiles::nowhere) return;
  const std::scoped_lock lock(m_mutex);
  OpenFile& open = m_open[use.kept];
  if (status.code == StatusCode::not_found) m_kept.forget(use.kept);  // ESTALE: another file has its name by now
  open.ended = open.ended || (m_access.drop_behind(plan) == DropBehind::stretches && m_access.last_of_file(request.sample, request.extent));
  if (m_kept.unpin(use.kept) > 0 || !open.ended) return;
  drop(use.descriptor, 0, 0);
  open.mark = {};
  open.ended = false;
}

Status FileReader::read_range(int descriptor, const ReadPlan& plan, std::span<std::byte> into, std::uint64_t& got) {
  for (int retries = 0;;) {
    const iovec part{into.data() + got, std::min(plan.size - got, largest_read)};
    const int flags = m_access.read_flags(plan);
    const ssize_t n = preadv2(descriptor, &part, 1, static_cast<off_t>(plan.begin + got), flags);
    if (n < 0) {
      const int error = errno;
      if (m_access.try_without_dropping(error, flags) || (passes(error) && ++retries < most_retries)) continue;
      return FileAccess::status_of_errno(error);
    }
    got += static_cast<std::uint64_t>(n);
    if (n == 0 || !m_access.goes_on(plan, got)) return {};
  }
}

Status FileReader::read_in_turn(const FetchRequest& request, const ReadPlan& plan, std::span<std::byte> memory, std::uint64_t& got) {
  Use use;
  Status status = begin_use(request, plan, use);
  if (!status.ok()) return status;
  m_access.count(plan.counted);
  status = read_range(use.descriptor, plan, memory, got);
  if (status.ok()) drop_pages(request, plan, use);
  end_use(request, plan, use, status);
  return status;
}

Status FileReader::read(const FetchRequest& request, BufferPool& pool, std::uint32_t buffer, std::span<const std::byte>& bytes) {
  const ReadPlan plan = m_access.plan(request.extent);
  if (plan.size == 0) return {};
  const std::span<std::byte> memory = pool.memory(buffer, plan.size);
  if (memory.size() < plan.size) return {StatusCode::io, ENOMEM};
  std::uint64_t got = 0;
  m_reading.fetch_add(1);
  Status status = read_in_turn(request, plan, memory, got);
  m_reading.fetch_sub(1);
  m_released.notify(*m_timing.waiter, 1 << 20);
  if (status.ok()) status = FileAccess::outcome(plan, request.extent, got);
  if (status.ok()) bytes = memory.subspan(plan.lead, request.extent.length);
  return status;
}

}  // namespace dsanalyze
