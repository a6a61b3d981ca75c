#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/system/files.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// A folder that is filled under a hidden name beside its own and gets that when it is whole; without commit() it is removed. Two at a time for the
/// same place are refused; what a killed one left is removed.
class OutputFolder {
 public:
  /// Throws Error naming path and cause: the parent is missing or refuses, the place is taken (not an empty folder, or a mount point), another
  /// conversion writes there, the disk has less than `needed` bytes left.
  OutputFolder(const std::filesystem::path& destination, Bytes needed);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  /// Where to write.
  [[nodiscard]] const std::filesystem::path& path() const { return m_temporary; }
  /// What is written becomes the destination: written through to the disk, then renamed.
  void commit();

 private:
  std::filesystem::path m_destination;
  std::filesystem::path m_temporary;
  FileDescriptor m_lock;
  bool m_is_committed = false;
};

/// A new file that is written from begin to end, or at places. Throws Error naming it and the cause, for a full disk what to do.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  void append(std::string_view bytes);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void set_size(std::uint64_t bytes) const;

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path m_path;
  FileDescriptor m_descriptor;
  std::uint64_t m_written = 0;
};

}  // namespace dsanalyze
