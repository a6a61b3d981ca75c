#include "spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string_view>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

std::array<int, 2> survived{};  ///< signals by survive_failed_writes(), that were not ignored when this program was started; 0: none

class SpawnAttributes {
 public:
  explicit SpawnAttributes(const SpawnWay& way) {
    ::posix_spawn_file_actions_init(&m_actions);
    if (way.input == SpawnWay::Input::nothing) ::posix_spawn_file_actions_addopen(&m_actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (way.output == SpawnWay::Output::to_stderr) ::posix_spawn_file_actions_adddup2(&m_actions, STDERR_FILENO, STDOUT_FILENO);
    ::posix_spawnattr_init(&m_attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&m_attributes, &none);
    sigset_t usual;
    ::sigemptyset(&usual);
    for (const int signal : survived)
      if (signal != 0) ::sigaddset(&usual, signal);
    ::posix_spawnattr_setsigdefault(&m_attributes, &usual);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (way.group == SpawnWay::Group::of_its_own) flags |= POSIX_SPAWN_SETPGROUP;
    ::posix_spawnattr_setpgroup(&m_attributes, 0);
    ::posix_spawnattr_setflags(&m_attributes, static_cast<short>(flags));
  }
  ~SpawnAttributes() {
    ::posix_spawn_file_actions_destroy(&m_actions);
    ::posix_spawnattr_destroy(&m_attributes);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* actions() const { return &m_actions; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &m_attributes; }

 private:
  posix_spawn_file_actions_t m_actions{};
  posix_spawnattr_t m_attributes{};
};

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

int spawn_command(std::vector<std::string> words, const std::vector<std::string>& added, const SpawnWay& way) {
  keep_ended_children();
  const SpawnAttributes attributes(way);
  std::vector<std::string> environment = environment_with(added);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, words.front().c_str(), attributes.actions(), attributes.attributes(), pointers(words).data(),
                                   pointers(environment).data());
  if (error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR) {
    throw UsageError(fmt::format("cannot start the command {}: {}; name a program, or a script with its interpreter (-- python3 train.py)",
                                 shell_word(words.front()), describe_errno(error)));
  }
  if (error != 0) throw_errno("cannot start the command", shell_word(words.front()), error);
  return process;
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
