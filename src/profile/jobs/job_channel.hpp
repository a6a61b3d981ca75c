#pragma once

#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {

/// One end of the talk between a profile and the process of one of its jobs: lines of text, both ways. Threads: one.
class JobChannel {
 public:
  JobChannel() = default;
  explicit JobChannel(FileDescriptor socket) : m_socket(std::move(socket)) {}
  /// Two connected ends; throws Error when the system has none.
  static std::pair<JobChannel, JobChannel> pair();

  [[nodiscard]] int descriptor() const { return m_socket.get(); }
  /// Text without line ends. io when the other end is gone, timeout past the deadline.
  Status send(const std::string& line, Timing timing, Deadline deadline);
  /// The next line. timeout; end when the other end is closed; corrupt for a line of more than 16 MiB.
  Status receive(std::string& line, Timing timing, Deadline deadline);

 private:
  FileDescriptor m_socket;
  std::string m_read;
};

}  // namespace dsanalyze
