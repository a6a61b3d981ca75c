#include "file_access.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t direct_block = 4096;

constexpr std::uint64_t round_down(std::uint64_t bytes, std::uint64_t block = direct_block) { return bytes / block * block; }
constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t block = direct_block) { return round_down(bytes + block - 1, block); }

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
  return round_up(end, where == ReadEnd::at_file_end ? filesystem_block : direct_block) - round_down(begin);
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
    plan.begin = round_down(extent.offset);
    const bool ends_file = plan.whole_file || m_index->file_count() == m_index->size();
    plan.counted = direct_bytes(extent.offset, end, ends_file ? ReadEnd::at_file_end : ReadEnd::within_file, m_filesystem_block);
    ask_to = round_up(ask_to);
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

}  // namespace dsanalyze
