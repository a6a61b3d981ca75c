#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/system/files.hpp"

namespace dsanalyze {

/// Looks at small pieces of a large file in ascending order: reads 4 KiB where pieces lie far apart, 64 KiB where they lie close together, so that
/// headers between large members are read without the members. Threads: one.
class FileWindow {
 public:
  /// Throws Error naming path and cause; also when it is no regular file.
  explicit FileWindow(const std::filesystem::path& path);

  /// The bytes there, at most `length`; fewer at the file's end. They stay until the next call. Throws Error naming path and cause.
  std::span<const std::byte> at(std::uint64_t offset, std::size_t length);
  /// Where the next byte at or behind `offset` is that no hole of the file holds; size() where none is. Filesystems without holes have it at once.
  [[nodiscard]] std::uint64_t next_data(std::uint64_t offset) const;
  /// As it was when the file was opened.
  [[nodiscard]] std::uint64_t size() const { return m_size; }
  [[nodiscard]] std::int64_t changed_nanoseconds() const { return m_changed_nanoseconds; }
  [[nodiscard]] std::uint64_t inode() const { return m_inode; }

 private:
  void fill(std::uint64_t offset, std::size_t length);

  std::filesystem::path m_path;
  FileDescriptor m_descriptor;
  std::uint64_t m_size = 0;
  std::int64_t m_changed_nanoseconds = 0;
  std::uint64_t m_inode = 0;
  std::vector<std::byte> m_bytes;
  std::uint64_t m_begin = 0;
  std::size_t m_length = 0;
};

}  // namespace dsanalyze
