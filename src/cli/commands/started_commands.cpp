#include "started_commands.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>

#include "base/error.hpp"
#include "base/status.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::cli {
namespace {

/// How a command is to be started: in a process group of its own, with default signals, of which none is blocked.
class SpawnWay {
 public:
  explicit SpawnWay(StartedCommands::Output output) {
    ::posix_spawn_file_actions_init(&m_actions);
    ::posix_spawn_file_actions_addopen(&m_actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (output == StartedCommands::Output::to_stderr) ::posix_spawn_file_actions_adddup2(&m_actions, STDERR_FILENO, STDOUT_FILENO);
    ::posix_spawnattr_init(&m_attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&m_attributes, &none);
    sigset_t usual;
    ::sigemptyset(&usual);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) ::sigaddset(&usual, signal);
    ::posix_spawnattr_setsigdefault(&m_attributes, &usual);
    ::posix_spawnattr_setpgroup(&m_attributes, 0);
    ::posix_spawnattr_setflags(&m_attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnWay() {
    ::posix_spawn_file_actions_destroy(&m_actions);
    ::posix_spawnattr_destroy(&m_attributes);
  }
  SpawnWay(const SpawnWay&) = delete;
  SpawnWay& operator=(const SpawnWay&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* actions() const { return &m_actions; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &m_attributes; }

 private:
  posix_spawn_file_actions_t m_actions{};
  posix_spawnattr_t m_attributes{};
};

/// Where nobody asked for it, the system collects children by itself, and how they ended is lost.
void keep_ended_commands() {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
}

/// Not to be guessed, so that a process that has it was started by the command; never 0.
std::uint64_t drawn_number() {
  std::random_device random;
  return std::uniform_int_distribution<std::uint64_t>(1)(random);
}

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

StartedCommands::~StartedCommands() {
  signal(SIGKILL);
  for (const auto& started : m_started) {
    if (!started->group) continue;
    started->group.reset();
    ::waitpid(started->process, nullptr, 0);
  }
}

void StartedCommands::start(const std::vector<std::string>& added) {
  keep_ended_commands();
  const SpawnWay way(m_output);
  auto started = std::make_unique<Started>();
  started->number = drawn_number();
  std::vector<std::string> all_added = added;
  all_added.push_back(fmt::format("DSANALYZE_COMMAND={:x}", started->number));
  std::vector<std::string> environment = environment_with(all_added);
  started->record.job = static_cast<int>(m_started.size());
  started->record.attached = false;
  started->record.batches_taken = 0;
  const int error = ::posix_spawnp(&started->process, m_words.front().c_str(), way.actions(), way.attributes(), pointers(m_words).data(),
                                   pointers(environment).data());
  if (error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR) {
    throw UsageError(fmt::format("cannot start the command {}: {}; name a program, or a script with its interpreter (-- python3 train.py)",
                                 shell_word(m_words.front()), describe_errno(error)));
  }
  if (error != 0) throw_errno("cannot start the command", shell_word(m_words.front()), error);
  started->group.emplace(started->process);
  m_started.push_back(std::move(started));
}

void StartedCommands::end(Started& started, int status) {
  if (WIFSIGNALED(status)) {
    started.record.signal = WTERMSIG(status);
  } else {
    started.record.exit_status = WEXITSTATUS(status);
  }
}

std::vector<std::size_t> StartedCommands::collect() {
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < m_started.size(); ++i) {
    Started& started = *m_started[i];
    if (!started.group) continue;
    siginfo_t info{};
    // Its number stays taken until what is left of its group has been told to end.
    if (::waitid(P_PID, static_cast<id_t>(started.process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != started.process) continue;
    ::kill(-started.process, SIGKILL);
    started.group.reset();
    int status = 0;
    if (::waitpid(started.process, &status, 0) == started.process) end(started, status);
    ended.push_back(i);
  }
  return ended;
}

std::size_t StartedCommands::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(m_started, [](const auto& started) { return started->group.has_value(); }));
}

std::vector<StartedCommands::Running> StartedCommands::unattached() const {
  std::vector<Running> found;
  for (const auto& started : m_started) {
    if (started->group && started->record.attached == false) found.push_back({started->record.job, started->process});
  }
  return found;
}

void StartedCommands::signal(int number) const {
  for (const auto& started : m_started) {
    if (started->group) ::kill(-started->process, number);
  }
}

StartedCommands::Started* StartedCommands::owner_of(const GroupJobOrigin& origin) {
  auto found = std::ranges::find(m_started, origin.command, &Started::number);
  if (found == m_started.end()) found = std::ranges::find(m_started, origin.process_group, &Started::process);
  return found == m_started.end() ? nullptr : found->get();
}

void StartedCommands::look_at(std::span<const GroupJobAccount> jobs) {
  m_others = 0;
  for (const auto& started : m_started) started->record.batches_taken = 0;
  for (const GroupJobAccount& job : jobs) {
    if (Started* const owner = owner_of(job.origin); owner != nullptr) {
      owner->record.attached = true;
      *owner->record.batches_taken += job.counts.batches_taken;
    } else {
      ++m_others;
    }
  }
}

std::vector<ShareCommandRecord> StartedCommands::records() const {
  std::vector<ShareCommandRecord> records;
  records.reserve(m_started.size());
  for (const auto& started : m_started) records.push_back(started->record);
  return records;
}

std::string how_it_ended(const ShareCommandRecord& command) {
  const std::string_view unattached = command.attached == false ? ", without having attached" : "";
  if (command.signal) return fmt::format("killed by signal {} ({}){}", *command.signal, ::strsignal(*command.signal), unattached);
  return fmt::format("exit status {}{}", command.exit_status.value_or(0), unattached);
}

}  // namespace dsanalyze::cli
