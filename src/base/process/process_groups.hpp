#pragma once

namespace dsanalyze {

/// A process group that this process started and has to end. While one of these lives, its leader must not be collected (waitpid), so that the number
/// is nobody else's. Threads: any.
class StartedGroup {
 public:
  explicit StartedGroup(int leader);
  ~StartedGroup();
  StartedGroup(const StartedGroup&) = delete;
  StartedGroup& operator=(const StartedGroup&) = delete;

 private:
  int m_leader;
};

/// For who is about to end this process without waiting for anything: SIGKILL to every started group. Not for signal handlers.
void kill_started_groups();

}  // namespace dsanalyze
