#include "spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

/// What a child says to its parent before it ends; nothing where it has become the command.
struct Failure {
  const char* entering = nullptr;  ///< what of SpawnWay::enter failed: a text that both have at the same place
  int error = 0;
};

std::array<int, 2> survived{};  ///< signals by survive_failed_writes(), that were not ignored when this program was started; 0: none

std::vector<std::string> environment_with(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (std::ranges::none_of(added, [name](const std::string& each) { return each.starts_with(name); })) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

void keep_ended_children() {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
}

void survive_failed_writes() {
  constexpr std::array signals = {SIGPIPE, SIGXFSZ};
  static_assert(signals.size() == survived.size());
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction action {};
    if (::sigaction(signals[i], nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    ::signal(signals[i], SIG_IGN);
    survived[i] = signals[i];
  }
}

namespace {

/// Where a program may lie, as a shell looks for it.
std::vector<std::string> places_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return {program};
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  std::vector<std::string> places;
  for (std::string folder; std::getline(folders, folder, ':');) places.push_back((folder.empty() ? "." : folder) + "/" + program);
  return places;
}

/// All that a child needs, made before it is: after the fork it may call async-signal-safe functions alone.
struct Start {
  std::vector<std::string> places, words, environment;
  std::vector<char*> arguments{}, variables{};
  const SpawnWay& way;
  int nothing = -1;  ///< /dev/null
};

/// No handler of this program's may run in the child, which shares its descriptors.
void reset_signals() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    const bool was_survived = std::ranges::find(survived, number) != survived.end();
    if (::sigaction(number, nullptr, &action) != 0 || (action.sa_handler == SIG_IGN && !was_survived)) continue;
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// Returns where the command cannot be started.
Failure become(const Start& start) {
  if (start.way.group == SpawnWay::Group::of_its_own) ::setpgid(0, 0);
  if (start.nothing >= 0 && ::dup2(start.nothing, STDIN_FILENO) < 0) return {nullptr, errno};
  if (start.way.output == SpawnWay::Output::to_stderr && ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return {nullptr, errno};
  if (start.way.enter)
    if (const char* const failed = start.way.enter(); failed != nullptr) return {failed, errno};
  reset_signals();
  int error = ENOENT;
  for (const std::string& place : start.places) {
    ::execve(place.c_str(), start.arguments.data(), start.variables.data());
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  return {nullptr, error};
}

/// The child, and why it did not become the command.
std::pair<pid_t, Failure> fork_command(const Start& start) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot start the command", shell_word(start.words.front()), errno);
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t process = ::fork();
  if (process == 0) {
    const Failure failure = become(start);
    ::_exit(::write(writing.get(), &failure, sizeof failure) == sizeof failure ? 0 : 1);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (process < 0) throw_errno("cannot start the command", shell_word(start.words.front()), error);
  writing.reset();
  Failure failure;
  ssize_t got = 0;
  do got = ::read(reading.get(), &failure, sizeof failure);
  while (got < 0 && errno == EINTR);
  return {process, got == sizeof failure ? failure : Failure{}};
}

}  // namespace

int spawn_command(std::vector<std::string> words, const std::vector<std::string>& added, const SpawnWay& way) {
  keep_ended_children();
  const std::string program = words.front();
  Start start{places_of(program), std::move(words), environment_with(added), {}, {}, way};
  start.arguments = pointers(start.words);
  start.variables = pointers(start.environment);
  FileDescriptor nothing;
  if (way.input == SpawnWay::Input::nothing) nothing = open_file("/dev/null", O_RDONLY | O_CLOEXEC);
  start.nothing = nothing.get();
  const auto [process, failure] = fork_command(start);
  if (failure.error == 0) return process;
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (failure.entering != nullptr)
    throw Error(fmt::format("cannot start the command in its sandbox: {}: {}", failure.entering, describe_errno(failure.error)));
  const int error = failure.error;
  if (error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR)
    throw UsageError(fmt::format("cannot start the command {}: {}; name a program, or a script with its interpreter (-- python3 train.py)",
                                 shell_word(program), describe_errno(error)));
  throw_errno("cannot start the command", shell_word(program), error);
}

namespace {

std::mutex relay_mutex;
SignalRelay* present = nullptr;  ///< guarded by relay_mutex

}  // namespace

SignalRelay::SignalRelay() {
  const std::scoped_lock lock(relay_mutex);
  present = this;
}

SignalRelay::~SignalRelay() {
  const std::scoped_lock lock(relay_mutex);
  present = nullptr;
}

void SignalRelay::send_to(int process) {
  const std::scoped_lock lock(relay_mutex);
  m_process = process;
  m_handle = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  for (const int signal : m_kept) send(signal);
}

void SignalRelay::send(int signal) const {
  if (m_handle.get() < 0)
    ::kill(m_process, signal);
  else
    ::syscall(SYS_pidfd_send_signal, m_handle.get(), signal, nullptr, 0);
}

bool SignalRelay::relay(int signal, bool from_terminal) {
  const std::scoped_lock lock(relay_mutex);
  if (present == nullptr) return false;
  if (present->m_process == 0)
    present->m_kept.push_back(signal);
  else if (!from_terminal)
    present->send(signal);
  return true;
}

}  // namespace dsanalyze
