#include "guardian.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "base/process/process_tree.hpp"
#include "base/process/processes.hpp"

namespace dsanalyze {
namespace {

constexpr char over = 'o';
constexpr double patience_seconds = 2;  ///< as LaunchSettings' default
constexpr std::chrono::seconds longest_goodbye{2};

/// Keeps nothing of the launcher's open: a reader of its output would wait for this process.
void let_go(int link) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, standard);
  constexpr unsigned first = STDERR_FILENO + 1;
  if (link > static_cast<int>(first)) ::syscall(SYS_close_range, first, link - 1, 0);
  ::syscall(SYS_close_range, link + 1, ~0U, 0);
}

[[noreturn]] void guard(int link, const std::filesystem::path& folder, Guardian::Duty duty, const std::filesystem::path& layer) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP}) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NAME, "dsanalyze-guard");
  let_go(link);
  char said = 0;
  ssize_t bytes = 0;
  do bytes = ::read(link, &said, 1);
  while (bytes < 0 && errno == EINTR);
  if (bytes == 1 && said == over) ::_exit(0);
  const std::string mark = "DSANALYZE_ATTACH=" + (folder / "attach").native();
  if (duty == Guardian::Duty::everything) end_all([&mark] { return processes_with(mark); }, patience_seconds);
  if (!layer.empty()) remove_layer(layer);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  ::_exit(0);
}

}  // namespace

Guardian::Guardian(const std::filesystem::path& folder, Duty duty, const std::filesystem::path& layer) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("cannot make a socket for", "the guardian", errno);
  m_link = FileDescriptor(ends[0]);
  const FileDescriptor other(ends[1]);
  // A process between the two makes it no descendant, so that this process neither collects nor ends it.
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  const pid_t between = ::fork();
  if (between < 0) throw_errno("cannot start", "the guardian", errno);
  if (between == 0) {
    ::setsid();
    const pid_t guardian = ::fork();
    if (guardian == 0) guard(other.get(), folder, duty, layer);
    ::_exit(guardian < 0 ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw Error("cannot start the process that cleans up if this one is killed");
}

Guardian::~Guardian() {
  ::send(m_link.get(), &over, 1, MSG_NOSIGNAL);
  // The guardian has ended before this process does: its end of the link closes with it.
  pollfd link{m_link.get(), POLLIN, 0};
  ::poll(&link, 1, static_cast<int>(std::chrono::milliseconds(longest_goodbye).count()));
}

GuardedSandbox::GuardedSandbox(const std::optional<SandboxPlan>& plan, const std::filesystem::path& folder) {
  if (plan && plan->refusal.empty()) m_sandbox.emplace(*plan, folder);
  m_guardian.emplace(folder, Guardian::Duty::everything, m_sandbox ? m_sandbox->layer() : std::filesystem::path());
}

}  // namespace dsanalyze
