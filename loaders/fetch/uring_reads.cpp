#include <cerrno>
#include <utility>

#include "file_access.hpp"
#include "uring_worker.hpp"

namespace dsanalyze {

void UringWorker::issue(UringRead& read) {
  if (!read.plan.whole_file) {
    const std::uint32_t file = read.job.request.extent.file;
    read.kept = m_kept.find(file);
    const bool found = read.kept != KeptFiles::nowhere;
    if (!found) read.kept = m_kept.assign(file);
    if (read.kept != KeptFiles::nowhere) {
      m_kept.pin(read.kept);
      KeptFile& kept = m_files[read.kept];
      if (found && !kept.open) {
        read.next_waiting = kept.first_waiting;
        kept.first_waiting = read.number;
        return;
      }
      if (!found) kept = {};
    }
  }
  issue_again(read);
}

/// From where it is: after a read that was short or interrupted, or an open that failed for a reason that has passed.
void UringWorker::issue_again(UringRead& read) {
  bool issued = true;
  if (read.kept == KeptFiles::nowhere) {
    issued = m_chains.read_once(read);
  } else if (m_files[read.kept].open) {
    m_chains.read_kept(read);
  } else {
    issued = m_chains.open_and_read(read);
  }
  if (issued) return;
  read.open_result = -ENAMETOOLONG;
  settle_failed_open(read);
}

/// A kept file was opened, which others may have waited for.
void UringWorker::opened(UringRead& read) {
  if (read.kept == KeptFiles::nowhere) return;
  KeptFile& kept = m_files[read.kept];
  kept.open = true;
  for (std::uint32_t number = std::exchange(kept.first_waiting, no_request); number != no_request;) {
    UringRead& waiting = m_reads[number];
    number = std::exchange(waiting.next_waiting, no_request);
    m_chains.read_kept(waiting);
  }
}

/// All completions of the read's chain are in. Where it broke, the later ones say no more than that: the first failure is what counts.
void UringWorker::settle(UringRead& read) {
  if (read.open_result < 0) {
    settle_failed_open(read);
    return;
  }
  if (read.read_result < 0) {
    settle_failed_read(read);
    return;
  }
  read.got += static_cast<std::uint64_t>(read.read_result);
  if (read.read_result > 0 && m_access.goes_on(read.plan, read.got)) {
    issue_again(read);
    return;
  }
  drop_pages(read);
  leave_kept(read);
  finish(read, FileAccess::outcome(read.plan, read.job.request.extent, read.got));
}

void UringWorker::settle_failed_open(UringRead& read) {
  const int error = -read.open_result;
  const bool again = m_access.try_with_access_time(error, read.open_flags) || (passes(error) && ++read.retries < most_retries) ||
                     ((error == EMFILE || error == ENFILE) && close_unused());
  if (again) {
    read.open_result = 0;
    issue_again(read);
    return;
  }
  const Status status = FileAccess::status_of_errno(error);
  if (read.kept != KeptFiles::nowhere) {
    m_kept.forget(read.kept);
    fail_waiting(m_files[read.kept], status);
    leave_kept(read);
  }
  finish(read, status);
}

void UringWorker::settle_failed_read(UringRead& read) {
  const int error = -read.read_result;
  if (m_access.try_without_dropping(error, read.read_flags) || (passes(error) && ++read.retries < most_retries)) {
    issue_again(read);
    return;
  }
  const Status status = FileAccess::status_of_errno(error);
  // ESTALE: another file has its name by now.
  if (read.kept != KeptFiles::nowhere && status.code == StatusCode::not_found) m_kept.forget(read.kept);
  leave_kept(read);
  finish(read, status);
}

void UringWorker::fail_waiting(KeptFile& file, Status status) {
  for (std::uint32_t number = std::exchange(file.first_waiting, no_request); number != no_request;) {
    UringRead& waiting = m_reads[number];
    number = std::exchange(waiting.next_waiting, no_request);
    leave_kept(waiting);
    finish(waiting, status);
  }
}

/// Reads that open their own file drop its pages in their chain.
void UringWorker::drop_pages(const UringRead& read) {
  if (read.kept == KeptFiles::nowhere) return;
  const DropBehind how = m_access.drop_behind(read.plan);
  KeptFile& kept = m_files[read.kept];
  const Extent& extent = read.job.request.extent;
  if (how == DropBehind::by_call) {
    const std::uint64_t begin = read.plan.begin / page_bytes * page_bytes;
    drop(read.kept, begin, read.plan.begin + read.plan.size + page_bytes - begin);
  } else if (how == DropBehind::stretches) {
    const DropMark::Stretch stretch = kept.mark.passed(extent.offset, m_access.reads_span(extent));
    if (stretch.length > 0) drop(read.kept, stretch.begin, stretch.length);
    kept.ended = kept.ended || m_access.last_of_file(read.job.request.sample, extent);
  }
}

/// A use of the entry like a read, or another file could be opened in its place before the pages go: those of the wrong file would.
void UringWorker::drop(std::size_t kept, std::uint64_t begin, std::uint64_t length) {
  m_kept.pin(kept);
  ++m_drops;
  m_chains.drop(kept, begin, length);
}

void UringWorker::dropped(std::size_t kept) {
  --m_drops;
  unpin(kept);
}

void UringWorker::leave_kept(UringRead& read) {
  if (read.kept == KeptFiles::nowhere) return;
  unpin(std::exchange(read.kept, KeptFiles::nowhere));
}

void UringWorker::unpin(std::size_t entry) {
  KeptFile& kept = m_files[entry];
  if (m_kept.unpin(entry) > 0 || !kept.ended) return;
  kept.mark = {};
  kept.ended = false;
  drop(entry, 0, 0);
}

/// True if anything was closed.
bool UringWorker::close_unused() {
  bool closed = false;
  for (std::size_t i = 0; i < m_files.size(); ++i) {
    if (!m_kept.unused(i) || !m_files[i].open) continue;
    int nothing = -1;
    io_uring_register_files_update(m_ring.get(), static_cast<unsigned>(i), &nothing, 1);
    m_kept.forget(i);
    m_files[i] = {};
    closed = true;
  }
  return closed;
}

}  // namespace dsanalyze
