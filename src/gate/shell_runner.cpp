#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "gate.hpp"
#include "shell_command.hpp"

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
