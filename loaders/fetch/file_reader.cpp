#include "file_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "dsanalyze/base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t direct_block = 4096;

Status status_of_errno(int error) {
  if (error == ENOENT || error == ENOTDIR || error == ESTALE) return {StatusCode::not_found, error};
  return {StatusCode::io, error};
}

/// Reads [offset, offset + size) unless the file ends first; short reads and interruptions are continued.
Status read_range(int descriptor, std::byte* into, std::uint64_t size, std::uint64_t offset, std::uint64_t& got) {
  got = 0;
  while (got < size) {
    const ssize_t n = pread(descriptor, into + got, size - got, static_cast<off_t>(offset + got));
    if (n < 0) {
      if (errno == EINTR) continue;
      return status_of_errno(errno);
    }
    if (n == 0) break;
    got += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace

FileReader::FileReader(std::shared_ptr<const DatasetIndex> index, ReadMode read_mode, PageCacheUse page_cache)
    : m_index(std::move(index)), m_read_mode(read_mode), m_page_cache(page_cache) {
  m_root = FileDescriptor(open(m_index->facts().root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!m_root.valid()) throw_errno("cannot open dataset folder", m_index->facts().root, errno);
}

FileDescriptor FileReader::open_file(std::uint32_t file, int& error) const {
  const std::string_view path = m_index->file_path(file);
  std::array<char, PATH_MAX> name;
  if (path.size() >= name.size()) {
    error = ENAMETOOLONG;
    return {};
  }
  std::memcpy(name.data(), path.data(), path.size());
  name[path.size()] = '\0';
  const int flags = O_RDONLY | O_CLOEXEC | (m_read_mode == ReadMode::direct ? O_DIRECT : 0);
  FileDescriptor descriptor(openat(m_root.get(), name.data(), flags | O_NOATIME));
  if (!descriptor.valid() && errno == EPERM) descriptor = FileDescriptor(openat(m_root.get(), name.data(), flags));
  if (!descriptor.valid()) error = errno;
  return descriptor;
}

Status FileReader::read(const Extent& extent, BufferPool& pool, std::uint32_t buffer, std::span<const std::byte>& bytes) {
  int error = 0;
  const FileDescriptor descriptor = open_file(extent.file, error);
  if (!descriptor.valid()) return status_of_errno(error);

  std::uint64_t begin = extent.offset;
  std::uint64_t size = extent.length;
  if (m_read_mode == ReadMode::direct) {
    begin = extent.offset / direct_block * direct_block;
    size = (extent.offset + extent.length - begin + direct_block - 1) / direct_block * direct_block;
  }
  const std::span<std::byte> memory = pool.memory(buffer, size);
  if (memory.size() < size) return {StatusCode::io, ENOMEM};
  m_requested.fetch_add(size, std::memory_order_relaxed);

  std::uint64_t got = 0;
  const Status status = read_range(descriptor.get(), memory.data(), size, begin, got);
  if (!status.ok()) return status;
  if (m_read_mode == ReadMode::buffered && m_page_cache == PageCacheUse::drop) {
    posix_fadvise(descriptor.get(), static_cast<off_t>(begin), static_cast<off_t>(size), POSIX_FADV_DONTNEED);
  }
  const std::uint64_t lead = extent.offset - begin;
  if (got < lead + extent.length) return {StatusCode::corrupt, 0};
  bytes = memory.subspan(lead, extent.length);
  return {};
}

}  // namespace dsanalyze
