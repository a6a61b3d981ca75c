#pragma once

#include "base/system/files.hpp"

namespace dsanalyze {

/// While one lives, signals that would ask this program to stop belong to a process that it started: what is sent to this program is sent on to that
/// one. One at a time. Threads: any.
class SignalRelay {
 public:
  /// `process`: a child that has not been collected.
  explicit SignalRelay(int process);
  ~SignalRelay();
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;

  /// Sends a signal that this program received to the process; nothing where it has ended. A signal that came from the terminal was sent to the
  /// process, too. Returns whether there is a relay, which means that the signal asks nothing of this program.
  static bool relay(int signal, bool from_terminal);

 private:
  void send(int signal) const;

  int m_process;
  FileDescriptor m_handle;  ///< of the process, whose number may be another's once it is collected; none where the kernel has no such thing
};

}  // namespace dsanalyze
