#include "shell_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/base/process_groups.hpp"

namespace dsanalyze::gate {
namespace {

constexpr std::size_t most_errors = 4096;
constexpr double patience_seconds = 2;  ///< between SIGTERM and SIGKILL
constexpr int poll_milliseconds = 50;

struct Pipe {
  FileDescriptor reading, writing;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make", "a pipe", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// In the child, between fork and exec: nothing but system calls.
[[noreturn]] void become_shell(const char* command, int output, int errors, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) ::signal(signal, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 || ::dup2(errors, STDERR_FILENO) < 0) ::_exit(127);
  ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  ::_exit(127);
}

/// The process group of one command.
class Group {
 public:
  Group(const std::string& command, Pipe& output, Pipe& errors) {
    const pid_t parent = ::getpid();
    m_leader = ::fork();
    if (m_leader < 0) throw_errno("cannot start", "/bin/sh", errno);
    if (m_leader == 0) become_shell(command.c_str(), output.writing.get(), errors.writing.get(), parent);
    ::setpgid(m_leader, m_leader);  // whoever is first
    m_started.emplace(m_leader);
    output.writing.reset();
    errors.writing.reset();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    ::kill(-m_leader, SIGKILL);
    if (!m_ended) wait(0);
  }

  void signal(int number) const { ::kill(-m_leader, number); }
  /// Whether the shell has ended; its id stays taken until the group is gone, so that signals reach nobody else.
  bool ended() {
    if (m_ended) return true;
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(m_leader), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == m_leader;
  }
  /// Ends what is left of the group and collects the shell.
  int finish() {
    ::kill(-m_leader, SIGKILL);
    return wait(0);
  }

 private:
  int wait(int options) {
    int status = 0;
    m_started.reset();
    while (::waitpid(m_leader, &status, options) < 0 && errno == EINTR) continue;
    m_ended = true;
    return status;
  }

  pid_t m_leader = -1;
  bool m_ended = false;
  std::optional<StartedGroup> m_started;
};

/// Takes what there is to read. False at the end of the stream.
bool drain(FileDescriptor& stream, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::read(stream.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  if (got <= 0) stream.reset();
  return got > 0;
}

/// Reads both streams for a moment at most.
void read_streams(Pipe& output, Pipe& errors, ShellOutcome& outcome) {
  std::array<pollfd, 2> entries{pollfd{output.reading.get(), POLLIN, 0}, pollfd{errors.reading.get(), POLLIN, 0}};  // poll passes over -1
  if (::poll(entries.data(), entries.size(), poll_milliseconds) <= 0) return;
  if (entries[0].revents != 0) drain(output.reading, outcome.output);
  if (entries[1].revents != 0) drain(errors.reading, outcome.errors);
  if (outcome.errors.size() > most_errors) outcome.errors.erase(0, outcome.errors.size() - most_errors);
}

/// What the pipes hold after the group's end; a process that left the group may keep them open, so nobody waits for their end.
void read_rest(Pipe& pipe, std::string& text) {
  while (pipe.reading.valid()) {
    pollfd entry{pipe.reading.get(), POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0 || !drain(pipe.reading, text)) return;
  }
}

}  // namespace

ShellOutcome run_shell(const std::string& command, double seconds, std::size_t most_output, const std::stop_token& stop) {
  const Clock& clock = *system_timing().clock;
  ShellOutcome outcome;
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Group group(command, output, errors);
  const Deadline deadline = clock.after(seconds);
  while (!group.ended()) {
    read_streams(output, errors, outcome);
    using enum ShellOutcome::End;
    outcome.end = stop.stop_requested()                 ? stopped
                  : clock.now() >= deadline.at          ? timed_out
                  : outcome.output.size() > most_output ? too_much_output
                                                        : exited;
    if (outcome.end != exited) break;
  }
  if (outcome.end != ShellOutcome::End::exited) {
    group.signal(SIGTERM);
    const Deadline patience = clock.after(patience_seconds);
    while (!group.ended() && clock.now() < patience.at) {
      read_streams(output, errors, outcome);
      outcome.output.clear();
    }
  }
  const int status = group.finish();
  read_rest(output, outcome.output);
  read_rest(errors, outcome.errors);
  if (outcome.end == ShellOutcome::End::exited && WIFSIGNALED(status)) outcome.end = ShellOutcome::End::killed;
  outcome.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  if (outcome.end == ShellOutcome::End::exited && outcome.output.size() > most_output) outcome.end = ShellOutcome::End::too_much_output;
  return outcome;
}

}  // namespace dsanalyze::gate
