#include "base/process/spawn.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "child_process.hpp"
#include "sanitizers.hpp"
#include "soon.hpp"
#include "temporary_folder.hpp"
#include "texts.hpp"

using namespace dsanalyze;
using testing::becomes_true;
using testing::says;
using testing::TemporaryFolder;

namespace {

/// As waitpid() has it; a child that does not end is killed, and its status is that.
int status_of(pid_t process) {
  int status = 0;
  if (becomes_true([&] { return ::waitpid(process, &status, WNOHANG) != 0; })) return status;
  ::kill(process, SIGKILL);
  ::waitpid(process, &status, 0);
  return status;
}

int exit_status_of(pid_t process) {
  const int status = status_of(process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run(const std::string& script, const std::vector<std::string>& added = {}, const SpawnWay& way = {}) {
  return exit_status_of(spawn_command({"sh", "-c", script}, added, way));
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What the kernel says of a process that was started in a child of this one, after `prepare` there: its own copy of /proc/self/status.
template <typename Prepare>
std::string status_after(const Prepare& prepare) {
  const TemporaryFolder folder;
  const std::string copy = folder.path() / "status";
  const int ended = testing::in_child([&] {
    prepare();
    return exit_status_of(spawn_command({"cp", "/proc/self/status", copy}, {}, {}));
  });
  CHECK(ended == 0);
  return content_of(copy);
}

/// A set of signals in such a text: "SigIgn:\t0000000000001001".
std::uint64_t signals_of(const std::string& status, const std::string& name) {
  const std::size_t at = status.find(name + ":\t");
  REQUIRE(at != std::string::npos);
  return std::stoull(status.substr(at + name.size() + 2, 16), nullptr, 16);
}

bool has(std::uint64_t signals, int signal) { return (signals >> (signal - 1) & 1) == 1; }

constexpr std::array stop_signals = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};

/// While one lives, commands are started as from a terminal: whatever started the tests may have ignored signals (nohup, a shell's &).
class NothingIgnored {
 public:
  NothingIgnored() {
    for (std::size_t i = 0; i < stop_signals.size(); ++i) m_before[i] = ::signal(stop_signals[i], SIG_DFL);
  }
  ~NothingIgnored() {
    for (std::size_t i = 0; i < stop_signals.size(); ++i) ::signal(stop_signals[i], m_before[i]);
  }
  NothingIgnored(const NothingIgnored&) = delete;
  NothingIgnored& operator=(const NothingIgnored&) = delete;

 private:
  std::array<sighandler_t, stop_signals.size()> m_before{};
};

/// A process that notes each signal with its name, until it is killed.
class Listener {
 public:
  Listener() {
    const NothingIgnored nothing_ignored;
    const std::string script =
        "for name in TERM HUP INT QUIT USR1 USR2; do trap \"echo $name >>$0/heard\" $name; done; : >$0/ready; for i in $(seq 6000); do sleep 0.01; "
        "done";
    m_process = spawn_command({"sh", "-c", script, m_folder.path().native()}, {}, {});
    REQUIRE(becomes_true([&] { return std::filesystem::exists(m_folder.path() / "ready"); }));
  }
  ~Listener() {
    ::kill(m_process, SIGKILL);
    ::waitpid(m_process, nullptr, 0);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] pid_t process() const { return m_process; }
  [[nodiscard]] std::string heard() const { return content_of(m_folder.path() / "heard"); }
  /// All that it has heard by the time when it has heard the last of these lines.
  [[nodiscard]] std::string heard_up_to(const std::string& last) const {
    becomes_true([&] { return heard().ends_with(last + "\n"); });
    return heard();
  }

 private:
  TemporaryFolder m_folder;
  pid_t m_process = 0;
};

}  // namespace

TEST_CASE("how a command ended is there to be collected: its exit status, or its signal" * doctest::skip(testing::fork_may_hang)) {
  CHECK(run("exit 0") == 0);
  CHECK(run("exit 7") == 7);
  for (const int signal : {SIGKILL, SIGTERM, SIGUSR1}) {
    const int status = status_of(spawn_command({"sh", "-c", "kill -" + std::to_string(signal) + " $$"}, {}, {}));
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
  }
}

TEST_CASE("how a command ended is there to be collected where children that end are ignored, too" * doctest::skip(testing::fork_may_hang)) {
  CHECK(testing::in_child([] {
          ::signal(SIGCHLD, SIG_IGN);
          return run("exit 7");
        }) == 7);
}

TEST_CASE("what was ignored stays ignored in a command; no signal is blocked there, and none has a handler" * doctest::skip(testing::fork_may_hang)) {
  const NothingIgnored nothing_ignored;
  const std::string usual = status_after([] {});
  const std::string status = status_after([] {
    for (const int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
    for (const int signal : {SIGTERM, SIGUSR1}) ::signal(signal, [](int) {});
    sigset_t blocked;
    ::sigemptyset(&blocked);
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR2}) ::sigaddset(&blocked, signal);
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  });
  for (const int signal : {SIGINT, SIGHUP}) {
    CHECK_FALSE(has(signals_of(usual, "SigIgn"), signal));
    CHECK(has(signals_of(status, "SigIgn"), signal));
  }
  for (const int signal : {SIGTERM, SIGUSR1, SIGQUIT, SIGUSR2}) CHECK_FALSE(has(signals_of(status, "SigIgn"), signal));
  CHECK(signals_of(status, "SigBlk") == 0);
  CHECK(signals_of(status, "SigCgt") == 0);
}

TEST_CASE("a program that survives closed pipes gets an error from one, and its commands are started as before" *
          doctest::skip(testing::fork_may_hang)) {
  const auto write_to_nothing = [] {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return 98;
    ::close(ends[0]);
    return ::write(ends[1], "x", 1) < 0 && errno == EPIPE ? 7 : 8;
  };
  CHECK(testing::in_child([&] {
          ::signal(SIGPIPE, SIG_DFL);
          return write_to_nothing();
        }) == -1);
  CHECK(testing::in_child([&] {
          ::signal(SIGPIPE, SIG_DFL);
          survive_failed_writes();
          return write_to_nothing();
        }) == 7);
  const std::string status = status_after([] {
    ::signal(SIGPIPE, SIG_DFL);
    survive_failed_writes();
    survive_failed_writes();
  });
  CHECK_FALSE(has(signals_of(status, "SigIgn"), SIGPIPE));
  // Ignored from the start, they stay so.
  const std::string of_ignored = status_after([] {
    ::signal(SIGPIPE, SIG_IGN);
    survive_failed_writes();
  });
  CHECK(has(signals_of(of_ignored, "SigIgn"), SIGPIPE));
}

TEST_CASE("an added variable replaces the one of that name, and no other" * doctest::skip(testing::fork_may_hang)) {
  const TemporaryFolder folder;
  const auto lines_of = [](const std::string& text, const std::string& start) {
    std::istringstream stream(text);
    int lines = 0;
    for (std::string line; std::getline(stream, line);) lines += line.starts_with(start) ? 1 : 0;
    return lines;
  };
  ::setenv("DSANALYZE_TRY", "old", 1);
  for (const char* const name : {"DSANALYZE_TR", "DSANALYZE_TRY_MORE"}) ::setenv(name, "kept", 1);
  CHECK(run("env >" + (folder.path() / "variables").native(), {"DSANALYZE_TRY=new"}) == 0);
  for (const char* const name : {"DSANALYZE_TR", "DSANALYZE_TRY", "DSANALYZE_TRY_MORE"}) ::unsetenv(name);
  const std::string variables = content_of(folder.path() / "variables");
  CHECK(lines_of(variables, "DSANALYZE_TRY=") == 1);
  CHECK(lines_of(variables, "DSANALYZE_TRY=new") == 1);
  CHECK(lines_of(variables, "DSANALYZE_TR=kept") == 1);
  CHECK(lines_of(variables, "DSANALYZE_TRY_MORE=kept") == 1);
  CHECK(lines_of(variables, "PATH=") == 1);
}

TEST_CASE("a file that is no program is refused by name, with what to do" * doctest::skip(testing::fork_may_hang)) {
  const TemporaryFolder folder;
  folder.write("train.py", "pass\n");
  folder.write("marked.py", "pass\n");
  std::filesystem::permissions(folder.path() / "marked.py", std::filesystem::perms::owner_all);
  for (const std::filesystem::path& file :
       {folder.path() / "train.py", folder.path() / "marked.py", folder.path(), folder.path() / "train.py" / "x"}) {
    const std::string message = testing::message_of<UsageError>([&] { spawn_command({file}, {}, {}); });
    CHECK(says(message, file.native()));
    CHECK(says(message, "-- python3 train.py"));
  }
}

TEST_CASE("a command has an empty input, or this program's own; its output may go to stderr" * doctest::skip(testing::fork_may_hang)) {
  const auto with_streams = [](const std::string& script, const SpawnWay& way, int stream) {
    const TemporaryFolder folder;
    folder.write("input", "a line\n");
    const std::string input = folder.path() / "input";
    const std::array<std::string, 2> outputs{folder.path() / "output", folder.path() / "errors"};
    CHECK(testing::in_child([&] {
            if (std::freopen(input.c_str(), "r", stdin) == nullptr || std::freopen(outputs[0].c_str(), "w", stdout) == nullptr ||
                std::freopen(outputs[1].c_str(), "w", stderr) == nullptr)
              return 98;
            return run(script, {}, way);
          }) == 0);
    return content_of(outputs[static_cast<std::size_t>(stream - 1)]);
  };
  CHECK(with_streams("cat; echo end", {.input = SpawnWay::Input::nothing}, STDOUT_FILENO) == "end\n");
  CHECK(with_streams("cat; echo end", {.input = SpawnWay::Input::own}, STDOUT_FILENO) == "a line\nend\n");
  CHECK(with_streams("echo printed; echo wrong >&2", {.output = SpawnWay::Output::own}, STDOUT_FILENO) == "printed\n");
  CHECK(with_streams("echo printed; echo wrong >&2", {.output = SpawnWay::Output::to_stderr}, STDOUT_FILENO).empty());
  CHECK(with_streams("echo printed; echo wrong >&2", {.output = SpawnWay::Output::to_stderr}, STDERR_FILENO) == "printed\nwrong\n");
}

TEST_CASE("a command leads a process group of its own, or is in this program's" * doctest::skip(testing::fork_may_hang)) {
  for (const auto group : {SpawnWay::Group::of_its_own, SpawnWay::Group::callers}) {
    const pid_t process = spawn_command({"sleep", "600"}, {}, {.group = group});
    CHECK(::getpgid(process) == (group == SpawnWay::Group::of_its_own ? process : ::getpgrp()));
    ::kill(process, SIGKILL);
    CHECK(exit_status_of(process) == -1);
  }
}

TEST_CASE("a relay passes each signal on as what it is, but for those that the terminal has sent to all" * doctest::skip(testing::fork_may_hang)) {
  const Listener listener;
  SignalRelay relay;
  relay.send_to(listener.process());
  std::string expected;
  for (const auto& [signal, name] :
       {std::pair{SIGTERM, "TERM"}, {SIGHUP, "HUP"}, {SIGINT, "INT"}, {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}}) {
    CHECK(SignalRelay::relay(signal, false));
    expected += std::string(name) + "\n";
    CHECK(listener.heard_up_to(name) == expected);
  }
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP}) CHECK(SignalRelay::relay(signal, true));
  CHECK(SignalRelay::relay(SIGTERM, false));
  CHECK(listener.heard_up_to("TERM") == expected + "TERM\n");
}

TEST_CASE("a relay keeps what comes before the process is there" * doctest::skip(testing::fork_may_hang)) {
  SignalRelay relay;
  CHECK(SignalRelay::relay(SIGUSR1, false));
  CHECK(SignalRelay::relay(SIGINT, true));  // No terminal has sent it to a process that was not there.
  const Listener listener;
  CHECK(listener.heard().empty());
  relay.send_to(listener.process());
  CHECK(becomes_true([&] { return says(listener.heard(), "INT\n") && says(listener.heard(), "USR1\n"); }));
  CHECK(SignalRelay::relay(SIGTERM, false));
  CHECK(listener.heard_up_to("TERM").size() == std::string("INT\nUSR1\nTERM\n").size());
}

TEST_CASE("without a relay signals are this program's own, and so they are after it" * doctest::skip(testing::fork_may_hang)) {
  const Listener listener;
  CHECK_FALSE(SignalRelay::relay(SIGTERM, false));
  {
    SignalRelay relay;
    relay.send_to(listener.process());
    CHECK(SignalRelay::relay(SIGUSR1, false));
  }
  CHECK_FALSE(SignalRelay::relay(SIGUSR2, false));
  CHECK(listener.heard_up_to("USR1") == "USR1\n");
}

TEST_CASE("a relay takes signals after its process has ended and was collected, too" * doctest::skip(testing::fork_may_hang)) {
  SignalRelay relay;
  const pid_t process = spawn_command({"true"}, {}, {});
  relay.send_to(process);
  CHECK(exit_status_of(process) == 0);
  CHECK(SignalRelay::relay(SIGTERM, false));
}
