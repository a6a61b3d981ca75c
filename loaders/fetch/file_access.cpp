#include "file_access.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "storage_meter.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t direct_block = 4096;

constexpr std::uint64_t block_of(std::uint64_t offset) { return offset / direct_block * direct_block; }

/// Of the filesystem that the folder lies on; never larger than what direct reads are aligned to.
std::uint64_t filesystem_block_of(int folder) {
  struct statvfs facts {};
  if (fstatvfs(folder, &facts) != 0 || facts.f_bsize == 0) return direct_block;
  return std::min<std::uint64_t>(facts.f_bsize, direct_block);
}

/// A bit for each file that more than one sample points into.
std::vector<std::uint64_t> files_of_many(const DatasetIndex& index) {
  const std::size_t words = (std::size_t{index.file_count()} + 63) / 64;
  std::vector<std::uint64_t> seen(words), many(words);
  for (const IndexRecord& record : index.records()) {
    const std::uint64_t bit = std::uint64_t{1} << (record.file % 64);
    many[record.file / 64] |= seen[record.file / 64] & bit;
    seen[record.file / 64] |= bit;
  }
  return many;
}

}  // namespace

FileAccess::FileAccess(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options) : m_index(std::move(index)), m_options(options) {
  m_root = open_file(m_index->facts().root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!m_root.valid()) throw_errno("cannot open dataset folder", m_index->facts().root, errno);
  m_filesystem_block = filesystem_block_of(m_root.get());
  // Elsewhere a record at offset 0 may be the first of several of which this index, a subset, names one.
  if (m_index->facts().format == "folder") m_holds_many = files_of_many(*m_index);
}

Bytes direct_bytes(std::uint64_t begin, std::uint64_t end, ReadEnd where, std::uint64_t filesystem_block) {
  return round_up(end, where == ReadEnd::at_file_end ? filesystem_block : direct_block) - block_of(begin);
}

bool FileAccess::path_of(std::uint32_t file, std::span<char> path) const {
  const std::string_view name = m_index->file_path(file);
  if (name.size() >= path.size()) return false;
  std::memcpy(path.data(), name.data(), name.size());
  path[name.size()] = '\0';
  return true;
}

int FileAccess::open_flags() const {
  return O_RDONLY | O_CLOEXEC | (m_options.read_mode == ReadMode::direct ? O_DIRECT : 0) |
         (m_no_access_time.load(std::memory_order_relaxed) ? O_NOATIME : 0);
}

bool FileAccess::try_with_access_time(int error, int flags) {
  if (error != EPERM || (flags & O_NOATIME) == 0) return false;
  m_no_access_time.store(false, std::memory_order_relaxed);
  return true;
}

int FileAccess::read_ahead_advice() const { return m_options.read_ahead == ReadAhead::sequential ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM; }

ReadPlan FileAccess::plan(const Extent& extent) const {
  ReadPlan plan;
  plan.whole_file = extent.offset == 0 && !m_holds_many.empty() && !holds_many(extent.file);
  plan.begin = extent.offset;
  plan.counted = extent.length;
  const std::uint64_t end = extent.offset + extent.length;
  std::uint64_t ask_to = plan.whole_file ? end + 1 : end;
  if (m_options.read_mode == ReadMode::direct) {
    plan.begin = block_of(extent.offset);
    const bool ends_file = plan.whole_file || m_index->file_count() == m_index->size();
    plan.counted = direct_bytes(extent.offset, end, ends_file ? ReadEnd::at_file_end : ReadEnd::within_file, m_filesystem_block);
    ask_to = round_up(ask_to, direct_block);
  }
  plan.lead = extent.offset - plan.begin;
  plan.needed = extent.length == 0 ? 0 : plan.lead + extent.length;
  plan.size = extent.length == 0 && !plan.whole_file ? 0 : ask_to - plan.begin;
  return plan;
}

bool FileAccess::goes_on(const ReadPlan& plan, std::uint64_t got) const {
  if (got >= plan.needed) return false;
  // A direct read ends off a block's edge at the end of a file only.
  return m_options.read_mode == ReadMode::buffered || got % direct_block == 0;
}

Status FileAccess::outcome(const ReadPlan& plan, const Extent& extent, std::uint64_t got) {
  if (got < plan.needed) return corrupt(Corruption::shorter);
  if (plan.whole_file && got > extent.length) return corrupt(Corruption::longer);
  return {};
}

DropBehind FileAccess::drop_behind(const ReadPlan& plan) const {
  if (m_options.read_mode == ReadMode::direct || m_options.page_cache == PageCacheUse::keep) return DropBehind::none;
  if (!plan.whole_file && m_options.read_ahead == ReadAhead::sequential) return DropBehind::stretches;
  return m_uncached.load(std::memory_order_relaxed) ? DropBehind::by_read : DropBehind::by_call;
}

bool FileAccess::try_without_dropping(int error, int flags) {
  if ((flags & rwf_dontcache) == 0 || (error != EOPNOTSUPP && error != EINVAL)) return false;
  m_uncached.store(false, std::memory_order_relaxed);
  return true;
}

bool FileAccess::last_of_file(SampleId sample, const Extent& extent) const {
  const auto records = m_index->records();
  return sample < records.size() && records[sample].file == extent.file && (sample + 1 == records.size() || records[sample + 1].file != extent.file);
}

std::uint64_t FileAccess::reads_span(const Extent& extent) const {
  constexpr std::uint64_t least = std::uint64_t{4} << 20;
  return std::max(least, 2 * static_cast<std::uint64_t>(m_options.concurrency) * extent.length);
}

Status FileAccess::status_of_errno(int error) {
  if (error == ENOENT || error == ENOTDIR || error == ESTALE) return {StatusCode::not_found, error};
  if (error == ECANCELED) return {StatusCode::cancelled, 0};
  return {StatusCode::io, error};
}

std::size_t KeptFiles::most_files() {
  constexpr std::size_t most = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<std::size_t>(most, std::max<std::size_t>(limit.rlim_cur / 4, 1));
}

std::size_t KeptFiles::find(std::uint32_t file) const {
  for (std::size_t i = 0; i < m_entries.size(); ++i) {
    if (m_entries[i].file == file) return i;
  }
  return nowhere;
}

std::size_t KeptFiles::assign(std::uint32_t file) {
  std::size_t best = nowhere;
  for (std::size_t i = 0; i < m_entries.size(); ++i) {
    if (m_entries[i].pins > 0) continue;
    if (m_entries[i].file == none) {
      best = i;
      break;
    }
    if (best == nowhere || m_entries[i].last_use < m_entries[best].last_use) best = i;
  }
  if (best != nowhere) m_entries[best] = {file, 0, ++m_uses};
  return best;
}

void KeptFiles::pin(std::size_t entry) {
  ++m_entries[entry].pins;
  m_entries[entry].last_use = ++m_uses;
}

DropMark::Stretch DropMark::passed(std::uint64_t offset, std::uint64_t span) {
  constexpr std::uint64_t step = std::uint64_t{8} << 20;
  constexpr std::uint64_t largest_folio = std::uint64_t{2} << 20;  // the kernel drops whole folios only: one may lie across the last stretch's end
  if (offset + span < m_dropped) m_dropped = offset / page_bytes * page_bytes;  // the file is read again
  if (offset < m_dropped + span + step) return {};
  const std::uint64_t begin = m_dropped - std::min(m_dropped, largest_folio);
  m_dropped = (offset - span) / page_bytes * page_bytes;
  return {begin, m_dropped - begin};
}

namespace {

FileDescriptor open_indexed(const DatasetIndex& index, std::uint32_t file) {
  const std::filesystem::path path = std::filesystem::path(index.facts().root) / index.file_path(file);
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// The kernel answers mincore only for files one owns or may write (else it says "all resident").
bool may_ask_mincore(const struct stat& info, int descriptor) {
  return info.st_uid == geteuid() || geteuid() == 0 || faccessat(descriptor, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

Bytes resident_by_mincore(int descriptor, std::size_t size) {
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (map == MAP_FAILED) return 0;
  std::vector<unsigned char> pages((size + page_bytes - 1) / page_bytes);
  Bytes resident = 0;
  if (mincore(map, size, pages.data()) == 0) {
    resident = static_cast<Bytes>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; })) * page_bytes;
  }
  munmap(map, size);
  return std::min<Bytes>(resident, size);
}

/// One byte of the first, middle and last page, read only if that needs no wait. A refusal makes the kernel begin to read the page nonetheless (one
/// page alone with RANDOM), so what is looked at would not stay cold: wait for those pages, which cannot be dropped earlier, and drop them.
Bytes resident_by_nowait(int descriptor, std::size_t size) {
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
  char byte = 0;
  const iovec vector{&byte, 1};
  std::vector<off_t> absent;
  for (const std::size_t offset : {std::size_t{0}, size / 2, size - 1}) {
    if (preadv2(descriptor, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT) != 1) absent.push_back(static_cast<off_t>(offset));
  }
  for (const off_t offset : absent) {
    constexpr auto page = static_cast<off_t>(page_bytes);
    if (pread(descriptor, &byte, 1, offset) == 1) posix_fadvise(descriptor, offset / page * page, page, POSIX_FADV_DONTNEED);
  }
  return size * static_cast<Bytes>(3 - absent.size()) / 3;
}

}  // namespace

Residency page_cache_residency(const DatasetIndex& index, std::uint32_t most_files) {
  Residency residency;
  const std::uint32_t files = index.file_count();
  const std::uint32_t looks = std::min(files, most_files);
  for (std::uint32_t i = 0; i < looks; ++i) {
    const auto file = static_cast<std::uint32_t>(std::uint64_t{i} * files / looks);
    const FileDescriptor descriptor = open_indexed(index, file);
    struct stat info {};
    if (!descriptor.valid() || fstat(descriptor.get(), &info) != 0 || info.st_size <= 0) continue;
    const auto size = static_cast<std::size_t>(info.st_size);
    residency.looked_at += size;
    residency.resident +=
        may_ask_mincore(info, descriptor.get()) ? resident_by_mincore(descriptor.get(), size) : resident_by_nowait(descriptor.get(), size);
  }
  return residency;
}

std::uint32_t drop_from_page_cache(const DatasetIndex& index, const std::stop_token& stop) {
  std::uint32_t unopened = 0;
  for (std::uint32_t file = 0; file < index.file_count() && !stop.stop_requested(); ++file) {
    const FileDescriptor descriptor = open_indexed(index, file);
    if (!descriptor.valid()) {
      ++unopened;
      continue;
    }
    // DONTNEED skips dirty pages. They need not be safe on the disk, only clean: syncing flushes the device's cache for every file.
    if (sync_file_range(descriptor.get(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0) {
      fdatasync(descriptor.get());
    }
    posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  return unopened;
}

}  // namespace dsanalyze
