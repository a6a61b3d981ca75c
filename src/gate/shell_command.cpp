#include "shell_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/process/command_group.hpp"
#include "base/process/spawn.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "gate.hpp"

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

/// Starts the command, which ends with this program. Its ends of the pipes are closed here.
int start_shell(const std::string& command, Pipe& output, Pipe& errors) {
  SpawnWay way;
  way.enter = [&, parent = ::getpid()]() -> const char* {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) return "the end with this program";
    return ::dup2(output.writing.get(), STDOUT_FILENO) < 0 || ::dup2(errors.writing.get(), STDERR_FILENO) < 0 ? "its output" : nullptr;
  };
  const int leader = spawn_command({"/bin/sh", "-c", command}, {}, way);
  output.writing.reset();
  errors.writing.reset();
  return leader;
}

/// Takes what there is to read. False at the end of the stream.
bool drain(FileDescriptor& stream, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::read(stream.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  if (got <= 0) stream.reset();
  return got > 0;
}

/// What the group says.
struct Streams {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  std::size_t most_output = 0;

  [[nodiscard]] bool open() const { return output.reading.valid() || errors.reading.valid(); }

  /// Reads for so long at most; of too much output, one byte too many is kept. False when there was nothing to read.
  bool read(int milliseconds, ShellOutcome& outcome) {
    std::array<pollfd, 2> entries{pollfd{output.reading.get(), POLLIN, 0}, pollfd{errors.reading.get(), POLLIN, 0}};  // poll passes over -1
    if (::poll(entries.data(), entries.size(), milliseconds) <= 0) return false;
    if (entries[0].revents != 0) drain(output.reading, outcome.output);
    if (entries[1].revents != 0) drain(errors.reading, outcome.errors);
    if (outcome.output.size() > most_output) outcome.output.resize(most_output + 1);
    if (outcome.errors.size() > most_errors) outcome.errors.erase(0, outcome.errors.size() - most_errors);
    return true;
  }
};

}  // namespace

ShellOutcome run_shell(const std::string& command, double seconds, std::size_t most_output, const std::stop_token& stop) {
  const Clock& clock = *system_timing().clock;
  ShellOutcome outcome;
  Streams streams;
  streams.most_output = most_output;
  CommandGroup group([&] { return start_shell(command, streams.output, streams.errors); });
  const Deadline deadline = clock.after(seconds);
  while (!group.ended()) {
    streams.read(poll_milliseconds, outcome);
    using enum ShellOutcome::End;
    outcome.end = stop.stop_requested()                 ? stopped
                  : clock.now() >= deadline.at          ? timed_out
                  : outcome.output.size() > most_output ? too_much_output
                                                        : exited;
    if (outcome.end != exited) break;
  }
  // What the shell started holds the pipes, mostly, so their end tells of its own. A process that left the group may keep them open for ever.
  group.signal(SIGTERM);
  const Deadline patience = clock.after(patience_seconds);
  while ((!group.ended() || streams.open()) && clock.now() < patience.at) streams.read(poll_milliseconds, outcome);
  const std::optional<int> collected = group.finish();
  if (!collected) throw_errno("cannot tell how a command ended:", "/bin/sh", ECHILD);
  const int status = *collected;
  const Deadline rest = clock.after(patience_seconds);
  while (streams.open() && outcome.output.size() <= most_output && clock.now() < rest.at && streams.read(0, outcome)) continue;
  if (outcome.end == ShellOutcome::End::exited && WIFSIGNALED(status)) outcome.end = ShellOutcome::End::killed;
  outcome.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  if (outcome.end == ShellOutcome::End::exited && outcome.output.size() > most_output) outcome.end = ShellOutcome::End::too_much_output;
  return outcome;
}

}  // namespace dsanalyze::gate

namespace dsanalyze {
namespace gate {
namespace {

constexpr std::size_t most_output = std::size_t{64} << 20;
constexpr std::size_t shown_lines = 5;

/// The last lines of what a command said, indented.
std::string last_lines(const std::string& errors) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < errors.size();) {
    const std::size_t end = std::min(errors.find('\n', at), errors.size());
    if (end > at) lines.push_back(errors.substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty()) return "; it said nothing on stderr";
  std::string text = "; its last lines on stderr:";
  for (std::size_t i = lines.size() - std::min(lines.size(), shown_lines); i < lines.size(); ++i) text += "\n  " + printable(lines[i]);
  return text;
}

std::string end_text(const ShellOutcome& outcome, double seconds) {
  using enum ShellOutcome::End;
  switch (outcome.end) {
    case timed_out:
      return fmt::format("took longer than {} and was ended (--run-timeout)", format_seconds(seconds));
    case killed:
      return fmt::format("was killed by signal {} ({})", outcome.status, ::strsignal(outcome.status));
    case too_much_output:
      return fmt::format("printed more than {}, which no profile has, and was ended", format_bytes(most_output));
    case exited:
    case stopped:
      break;
  }
  return fmt::format("failed with exit status {}", outcome.status);
}

ProfileResult run_once(const std::string& name, const std::string& command, double seconds, const std::stop_token& stop) {
  const ShellOutcome outcome = run_shell(command, seconds, most_output, stop);
  if (outcome.end == ShellOutcome::End::stopped) throw Interrupted();
  const std::string what = fmt::format("the {} command ({})", name, printable(command));
  if (outcome.end != ShellOutcome::End::exited || outcome.status != 0)
    throw Error(fmt::format("{} {}{}", what, end_text(outcome, seconds), last_lines(outcome.errors)));
  try {
    return profile_from_json(outcome.output, "its output");
  } catch (const UsageError& error) {
    const std::string begin = printable(outcome.output.substr(0, 60));
    throw Error(fmt::format("{} did not print one profile as JSON ({}){}: have it run `dsanalyze profile ... --json`, with nothing else on stdout",
                            what, error.what(), begin.empty() ? "; it printed nothing" : fmt::format("; its output begins \"{}\"", begin)));
  }
}

}  // namespace
}  // namespace gate

GateRunner shell_runner(const GateCommands& commands, std::stop_token stop) {
  return [commands, stop = std::move(stop)](GateSideName side) {
    return gate::run_once(std::string(gate_side_word(side)), side == GateSideName::baseline ? commands.baseline : commands.current,
                          commands.run_seconds, stop);
  };
}

}  // namespace dsanalyze
