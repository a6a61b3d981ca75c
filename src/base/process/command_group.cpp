#include "command_group.hpp"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace dsanalyze {

CommandGroup::CommandGroup(const std::function<int()>& start) : m_started(std::in_place, start), m_leader(m_started->leader()) {}

CommandGroup::~CommandGroup() {
  if (m_started) finish();
}

void CommandGroup::signal(int number) const {
  if (m_started) ::kill(-m_leader, number);
}

bool CommandGroup::ended() const {
  if (!m_started) return true;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(m_leader), &info, WEXITED | WNOHANG | WNOWAIT) == 0) return info.si_pid == m_leader;
  return errno == ECHILD;
}

std::optional<int> CommandGroup::finish() {
  signal(SIGKILL);
  m_started.reset();
  int status = 0;
  pid_t collected = 0;
  do {
    collected = ::waitpid(m_leader, &status, 0);
  } while (collected < 0 && errno == EINTR);
  return collected == m_leader ? std::optional(status) : std::nullopt;
}

}  // namespace dsanalyze
