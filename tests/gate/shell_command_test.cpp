#include <doctest/doctest.h>

#include <sched.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

#include "../base/temporary_folder.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "gate/gate.hpp"
#include "gate/shell_command.hpp"

using namespace dsanalyze;
using dsanalyze::gate::run_shell;
using dsanalyze::gate::ShellOutcome;
using End = ShellOutcome::End;

namespace {

constexpr std::size_t megabyte = 1 << 20;
constexpr double long_enough = 60;

/// Whether the process is gone (a zombie that no process collects counts as gone).
bool is_gone(int process) {
  if (::kill(process, 0) != 0) return errno == ESRCH;
  std::ifstream stream("/proc/" + std::to_string(process) + "/stat");
  const std::string status{std::istreambuf_iterator<char>(stream), {}};
  return status.empty() || status.find(") Z ") != std::string::npos || status.find(") X ") != std::string::npos;
}

/// Whether the process whose id the file holds ends: it was sent SIGKILL, which takes effect a moment later.
bool gone(const std::filesystem::path& file) {
  const int process = std::stoi(read_file(file));
  const Deadline deadline = system_timing().clock->after(30);
  while (!is_gone(process) && system_timing().clock->now() < deadline.at) ::sched_yield();
  return is_gone(process);
}

std::string failure(const std::string& command) {
  GateCommands commands;
  commands.baseline = command;
  commands.current = command;
  try {
    shell_runner(commands, {})(GateSideName::current);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a command's output and status come back") {
  const ShellOutcome outcome = run_shell("echo out; echo err >&2; exit 3", long_enough, megabyte, {});
  CHECK(outcome.end == End::exited);
  CHECK(outcome.status == 3);
  CHECK(outcome.output == "out\n");
  CHECK(outcome.errors == "err\n");
}

TEST_CASE("long output comes back whole") {
  const ShellOutcome outcome = run_shell("head -c 900000 /dev/zero", long_enough, megabyte, {});
  CHECK(outcome.end == End::exited);
  CHECK(outcome.output.size() == 900000);
}

TEST_CASE("a command that hangs is ended with all that it started") {
  const auto folder = testing::TemporaryFolder();
  const auto file = folder.path() / "pid";
  const ShellOutcome outcome = run_shell("trap '' TERM; (trap '' TERM; sleep 1000) & echo $! > '" + file.string() + "'; wait", 0.5, megabyte, {});
  CHECK(outcome.end == End::timed_out);
  CHECK(gone(file));
}

TEST_CASE("a stop ends the command") {
  std::stop_source stop;
  stop.request_stop();
  CHECK(run_shell("sleep 1000", long_enough, megabyte, stop.get_token()).end == End::stopped);
}

TEST_CASE("what a command leaves behind in its group does not outlive it") {
  const auto folder = testing::TemporaryFolder();
  const auto file = folder.path() / "pid";
  const ShellOutcome outcome = run_shell("sleep 1000 & echo $! > '" + file.string() + "'", long_enough, megabyte, {});
  CHECK(outcome.end == End::exited);
  CHECK(gone(file));
}

TEST_CASE("what a command started has time to end in good order too") {
  const auto folder = testing::TemporaryFolder();
  const auto file = folder.path() / "in_good_order";
  folder.write("child.sh", "trap 'touch \"" + file.string() + "\"; exit 0' TERM; echo > '" + file.string() + ".ready'; while :; do :; done");
  const std::string command = "sh '" + (folder.path() / "child.sh").string() + "' & until test -e '" + file.string() + ".ready'; do :; done";
  CHECK(run_shell(command, long_enough, megabyte, {}).end == End::exited);
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("a process that left the group and writes without end is not read without end") {
  const auto folder = testing::TemporaryFolder();
  const auto file = folder.path() / "pid";
  const ShellOutcome outcome = run_shell(
      "setsid sh -c 'echo $$ > \"" + file.string() + "\"; exec yes' & until test -s '" + file.string() + "'; do :; done", long_enough, megabyte, {});
  ::kill(std::stoi(read_file(file)), SIGKILL);
  CHECK(outcome.output.size() <= megabyte + 1);
}

TEST_CASE("a program that was started with SIGCHLD ignored still learns how a command ended") {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const ShellOutcome outcome = run_shell("exit 3", long_enough, megabyte, {});
  CHECK(outcome.end == End::exited);
  CHECK(outcome.status == 3);
  ::signal(SIGCHLD, before);
}

TEST_CASE("output without end is cut off") { CHECK(run_shell("yes", long_enough, megabyte, {}).end == End::too_much_output); }

TEST_CASE("a command that dies by a signal says which") {
  const ShellOutcome outcome = run_shell("kill -9 $$", long_enough, megabyte, {});
  CHECK(outcome.end == End::killed);
  CHECK(outcome.status == SIGKILL);
}

TEST_CASE("failures name the side, the command and what it said") {
  CHECK(failure("echo 'no such dataset' >&2; exit 2").find("the current command (echo") != std::string::npos);
  CHECK(failure("echo 'no such dataset' >&2; exit 2").find("exit status 2; its last lines on stderr:\n  no such dataset") != std::string::npos);
  CHECK(failure("true").find("it printed nothing") != std::string::npos);
  CHECK(failure("printf 'Hello \\033[2J'").find("begins \"Hello \\x1b[2J\"") != std::string::npos);
  CHECK(failure("echo '{\"schema\": \"dsanalyze.whatif/1\"}'").find("--json") != std::string::npos);
}
