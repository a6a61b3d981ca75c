#include "file_window.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t small_window = std::size_t{4} << 10;
constexpr std::size_t large_window = std::size_t{64} << 10;

}  // namespace

FileWindow::FileWindow(const std::filesystem::path& path) : m_path(path), m_descriptor(open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!m_descriptor.valid()) throw_errno("cannot open", path.string(), errno);
  struct stat facts {};
  if (fstat(m_descriptor.get(), &facts) != 0) throw_errno("cannot open", path.string(), errno);
  if (!S_ISREG(facts.st_mode)) throw Error(path.string() + " is no regular file");
  m_size = static_cast<std::uint64_t>(facts.st_size);
  m_changed_nanoseconds = static_cast<std::int64_t>(facts.st_ctim.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(facts.st_ctim.tv_nsec);
  m_inode = facts.st_ino;
  (void)posix_fadvise(m_descriptor.get(), 0, 0, POSIX_FADV_RANDOM);  // advice: without it the kernel reads more than is asked for, nothing else
}

std::span<const std::byte> FileWindow::at(std::uint64_t offset, std::size_t length) {
  if (offset >= m_size) return {};
  length = static_cast<std::size_t>(std::min<std::uint64_t>(length, m_size - offset));
  if (offset < m_begin || offset + length > m_begin + m_length) fill(offset, length);
  const auto place = static_cast<std::size_t>(offset - m_begin);
  return {m_bytes.data() + place, std::min(length, m_length - place)};
}

std::uint64_t FileWindow::next_data(std::uint64_t offset) const {
  if (offset >= m_size) return m_size;
  const off_t found = lseek(m_descriptor.get(), static_cast<off_t>(offset), SEEK_DATA);
  if (found >= 0) return std::min(static_cast<std::uint64_t>(found), m_size);
  return errno == ENXIO ? m_size : offset;
}

void FileWindow::fill(std::uint64_t offset, std::size_t length) {
  const bool is_close = offset <= m_begin + m_length + large_window / 4;
  const std::size_t wanted = std::max(length, is_close ? large_window : small_window);
  m_bytes.resize(std::max(m_bytes.size(), wanted));
  m_begin = offset;
  m_length = 0;
  while (m_length < wanted) {
    const ssize_t got = pread(m_descriptor.get(), m_bytes.data() + m_length, wanted - m_length, static_cast<off_t>(offset + m_length));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", m_path.string(), errno);
    if (got == 0) break;
    m_length += static_cast<std::size_t>(got);
  }
}

}  // namespace dsanalyze
