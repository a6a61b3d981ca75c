#pragma once

#include <sys/stat.h>

#include <filesystem>

#include "base/clock.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {

/// A listening socket that names senders (base/shared_memory.hpp), with a name in the file system, for this user alone (mode 0600). A socket that a
/// host which is gone left there is replaced, one that somebody listens to is not, nor is any other file. Threads: one.
class ListeningSocket {
 public:
  /// Throws UsageError (path too long, taken) and Error (the system).
  explicit ListeningSocket(const std::filesystem::path& path, Timing timing);
  /// Removes the name, unless it belongs to somebody else by now.
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  [[nodiscard]] int get() const { return m_socket.get(); }
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  std::filesystem::path m_path;
  FileDescriptor m_socket;
  dev_t m_device = 0;
  ino_t m_inode = 0;
};

}  // namespace dsanalyze
