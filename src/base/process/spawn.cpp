#include "spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

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

/// All that a child needs, made before it is: after the fork it may call async-signal-safe functions alone.
struct Start {
  std::string program;
  std::vector<std::string> words, environment;
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
ChildFailure become(const Start& start) {
  if (start.way.group == SpawnWay::Group::of_its_own) ::setpgid(0, 0);
  if (start.nothing >= 0 && ::dup2(start.nothing, STDIN_FILENO) < 0) return {nullptr, errno};
  if (start.way.output == SpawnWay::Output::to_stderr && ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return {nullptr, errno};
  if (start.way.enter)
    if (const char* const failed = start.way.enter(); failed != nullptr) return {failed, errno};
  ::execve(start.program.c_str(), start.arguments.data(), start.variables.data());
  return {nullptr, errno};
}

[[noreturn]] void refuse_to_start(const std::string& name, int error) {
  if (error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR)
    throw UsageError(fmt::format("cannot start the command {}: {}; name a program, or a script with its interpreter (-- python3 train.py)",
                                 shell_word(name), describe_errno(error)));
  throw_errno("cannot start the command", shell_word(name), error);
}

}  // namespace

ForkedChild fork_child(const std::function<ChildFailure()>& body, double most_seconds) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make", "a pipe", errno);
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t process = ::fork();
  if (process == 0) {
    reset_signals();
    const ChildFailure failure = body();
    if (failure.error != 0 && ::write(writing.get(), &failure, sizeof failure) != sizeof failure) ::_exit(1);
    ::_exit(0);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (process < 0) throw_errno("cannot make", "a process", error);
  writing.reset();
  pollfd answer{reading.get(), POLLIN, 0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(most_seconds);
  int ready = 0;
  do ready = ::poll(&answer, 1, std::max(0, static_cast<int>((end - std::chrono::steady_clock::now()) / std::chrono::milliseconds(1))));
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) {
    ::kill(process, SIGKILL);
    return {process, {"an answer", ETIMEDOUT}};
  }
  ChildFailure failure;
  const bool failed = ::read(reading.get(), &failure, sizeof failure) == sizeof failure;
  return {process, failed ? failure : ChildFailure{}};
}

std::filesystem::path program_path(const std::string& word, const std::filesystem::path& folder) {
  const auto runs = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
  };
  if (word.find('/') != std::string::npos) return runs(folder / word) ? folder / word : std::filesystem::path();
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string each; std::getline(folders, each, ':');)
    if (std::filesystem::path candidate = folder / each / word; runs(candidate)) return candidate;
  return {};
}

int spawn_command(std::vector<std::string> words, const std::vector<std::string>& added, const SpawnWay& way) {
  keep_ended_children();
  const std::string name = words.front();
  const std::filesystem::path program = program_path(name);
  if (program.empty() && name.find('/') == std::string::npos) refuse_to_start(name, ENOENT);
  Start start{program.empty() ? name : program.native(), std::move(words), environment_with(added), {}, {}, way};
  start.arguments = pointers(start.words);
  start.variables = pointers(start.environment);
  FileDescriptor nothing;
  if (way.input == SpawnWay::Input::nothing) nothing = open_file("/dev/null", O_RDONLY | O_CLOEXEC);
  start.nothing = nothing.get();
  constexpr double most_seconds = 60;  // A program on slow storage is read within it; one on storage that does not answer is not.
  const auto [process, failure] = fork_child([&start] { return become(start); }, most_seconds);
  if (failure.error == 0) return process;
  if (failure.error != ETIMEDOUT)  // A child that hangs is collected with others, once it ends.
    while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) continue;
  if (failure.what != nullptr) throw Error(fmt::format("cannot start the command: {}: {}", failure.what, describe_errno(failure.error)));
  refuse_to_start(name, failure.error);
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
