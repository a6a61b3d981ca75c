#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/text/units.hpp"

namespace dsanalyze {

/// Owns one file descriptor. Movable, closed on destruction.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : m_descriptor(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : m_descriptor(std::exchange(other.m_descriptor, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const { return m_descriptor; }
  [[nodiscard]] bool valid() const { return m_descriptor >= 0; }
  [[nodiscard]] int release() { return std::exchange(m_descriptor, -1); }
  void reset();

 private:
  int m_descriptor = -1;
};

/// open(2), again while a signal interrupts it. Not valid when it fails; errno says why.
FileDescriptor open_file(const std::filesystem::path& path, int flags, unsigned mode = 0);

/// A file mapped read-only. Empty files give an empty view.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error naming path and cause.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  [[nodiscard]] std::string_view view() const { return {static_cast<const char*>(m_data), m_size}; }

 private:
  const void* m_data = nullptr;
  std::size_t m_size = 0;
};

/// The whole file; throws Error naming path and cause. Files over `limit` are refused.
std::string read_file(const std::filesystem::path& path, Bytes limit = Bytes{1} << 30);
/// The new content appears under `path` whole or not at all: written to an unnamed file of the same folder, synced, linked in. A full disk
/// or a kill leaves the old file and nothing else (a kill between two calls, or on a filesystem without unnamed files, may leave one
/// ".<name>.<random>.tmp"). A replaced file keeps its mode, a link its target; special files (/dev/null, pipes) are written in place.
/// Throws Error naming path and cause.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
/// The same for content that comes piece by piece: what is written appears under `path` with commit(), or, without it, never.
/// Threads: one at a time.
class AtomicFile {
 public:
  /// Throws Error naming path and cause.
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  /// False when it, or a write before it, could not be written: commit() says why.
  bool write(std::string_view content) noexcept;
  /// Throws Error naming path and cause; nothing appears then. Once.
  void commit();

  struct State;

 private:
  std::unique_ptr<State> m_state;
};
/// Throws Error, as write_file_atomically() would, if nothing can be written under `path` whatever its content: its folder is not there or refuses,
/// or it is a folder itself. Writes nothing. For work that takes long before it has something to write.
void require_writable(const std::filesystem::path& path);
/// $XDG_STATE_HOME/dsanalyze or ~/.local/state/dsanalyze (profiles); not created.
std::filesystem::path user_state_directory();
/// $XDG_CACHE_HOME/dsanalyze or ~/.cache/dsanalyze (dataset indexes); not created.
std::filesystem::path user_cache_directory();

/// Where new content is written before it gets its name. Not every filesystem has unnamed files; there, a kill in mid-write leaves a
/// file ".<name>.<random>.tmp" behind.
enum class TemporaryKind { unnamed, named };

/// write_file_atomically() of files.hpp with the first way to try.
void write_file_atomically(const std::filesystem::path& path, std::string_view content, TemporaryKind kind);

/// A file, socket or folder with a name that this process made and removes before it ends. This removes nothing: it only says so, for as long as it
/// lives, to who ends the process without waiting for anything. Threads: any.
class NamedPlace {
 public:
  explicit NamedPlace(std::filesystem::path path);
  ~NamedPlace();
  NamedPlace(const NamedPlace&) = delete;
  NamedPlace& operator=(const NamedPlace&) = delete;

 private:
  std::filesystem::path m_path;
};

/// For who is about to end this process without waiting for anything: removes every named place, with what is in it. Not for signal handlers.
void remove_named_places() noexcept;

}  // namespace dsanalyze
