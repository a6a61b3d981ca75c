#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "cli/commands/command.hpp"
#include "cli/help/help.hpp"
#include "cli/options/typed_options.hpp"
#include "cli/process/job_process.hpp"
#include "cli/terminal/interrupt.hpp"
#include "cli/terminal/terminal.hpp"
#include "core/records/result.hpp"
#include "transport/rendezvous/launch.hpp"

namespace dsanalyze::cli {
namespace {

enum class Form { text, json };

/// What the shells' completion scripts say first; the words typed so far follow.
constexpr std::string_view complete_request = "__complete";
/// What the build asks for, to make manual pages.
constexpr std::string_view options_request = "__options";

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return exit_usage;
    case ErrorKind::undecided:
      return exit_undecided;
    case ErrorKind::interrupted:
      return exit_interrupted;
    case ErrorKind::failed:
      break;
  }
  return exit_failed;
}

std::string ended(std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands()) names.emplace_back(entry.name);
  return names;
}

std::string command_list(int width) {
  std::string text = "## Commands\n\n```\n";
  for (const CommandEntry& entry : commands()) text += fmt::format("  {:<13}  {}\n", entry.name, entry.summary);
  return laid_out_help(text, width);
}

/// Help as the one document of stdout.
std::string help_document(const std::string& command, const std::string& text, Form form) {
  if (form == Form::text) return text;
  return nlohmann::ordered_json{{"schema", "dsanalyze.help/1"}, {"command", command}, {"text", text}}.dump(2) + "\n";
}

std::string version_document(Form form) {
  const ToolRecord tool = this_tool();
  if (form == Form::text) return fmt::format("{} {}{}\n", tool.name, tool.version, tool.commit.empty() ? "" : " (" + tool.commit + ")");
  return nlohmann::ordered_json{{"schema", "dsanalyze.version/1"},
                                {"tool", {{"name", tool.name}, {"version", tool.version}, {"commit", tool.commit}}}}
             .dump(2) +
         "\n";
}

const CommandEntry& find_command(const std::string& name) {
  for (const CommandEntry& entry : commands())
    if (entry.name == name) return entry;
  const auto names = command_names();
  throw UsageError(fmt::format("unknown command \"{}\"{}; known are {}", name, did_you_mean(name, names), fmt::join(names, ", ")));
}

bool is_common_with_value(const std::string& name) {
  return std::ranges::any_of(
      every_option(), [&](const Option* option) { return place_of(*option, {}) != nullptr && option->takes_value() && has_name(*option, name); });
}

/// One call of the program, taken apart: common options may stand before the command's name.
struct Call {
  std::string command;  ///< empty for none
  std::vector<std::string> arguments;
};

Call take_apart(const std::vector<std::string>& arguments) {
  Call call;
  auto at = arguments.begin();
  for (; at != arguments.end() && at->starts_with('-'); ++at) {
    call.arguments.push_back(*at);
    if (is_common_with_value(*at) && at + 1 != arguments.end()) call.arguments.push_back(*++at);
  }
  if (at != arguments.end()) call.command = *at++;
  call.arguments.insert(call.arguments.end(), at, arguments.end());
  return call;
}

/// Options without a command: only --help, --version and --json mean something.
void refuse_options_alone(const std::vector<std::string>& arguments) {
  const std::vector<std::string> known{"--help", "--version", "--json", "--quiet", "--verbose", "-h", "-q", "-v"};
  for (const std::string& argument : arguments)
    if (std::ranges::find(known, argument) == known.end())
      throw UsageError(
          fmt::format("{}{}: a command is missing; known are {}", argument, did_you_mean(argument, known), fmt::join(command_names(), ", ")));
}

/// Ranks that mpirun or srun started write to one output: the document there is rank 0's.
bool shares_output_of_rank_0() {
  try {
    return find_launch(std::nullopt, std::nullopt, process_environment()).rank > 0;
  } catch (const Error&) {
    return false;
  }
}

class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments)
      : m_arguments(arguments),
        m_form(has_flag(arguments, {"--json"}) ? Form::json : Form::text),
        m_tells_errors(m_form == Form::json && !shares_output_of_rank_0()),
        m_stands_for_another(has_flag(arguments, {"--passive"}) && take_apart(arguments).command == "profile"),
        m_interrupt(notice(), last_words()) {}

  int run() {
    try {
      return dispatch();
    } catch (const Error& error) {
      return fail(error.kind(), error.what());
    } catch (const std::bad_alloc&) {
      return fail(ErrorKind::failed, "out of memory: give the program more, or ask for less (a smaller cache or subset)");
    } catch (const std::exception& error) {
      return fail(ErrorKind::failed, error.what());
    }
  }

 private:
  [[nodiscard]] std::string notice() const {
    return has_flag(m_arguments, {"-q", "--quiet"}) ? "" : "\ninterrupted: stopping in good order; once more ends at once\n";
  }
  [[nodiscard]] std::string last_words() const {
    return m_tells_errors ? ended(error_json(ErrorKind::interrupted, "interrupted", exit_interrupted)) : "";
  }

  /// What is told of a command that this program stands for: stdout is that command's own.
  [[nodiscard]] Stream text_stream() const { return m_stands_for_another ? Stream::error : Stream::output; }

  void print(const std::string& text) {
    m_interrupt.claim_output();
    write_output(text, m_interrupt.token());
  }

  int dispatch() {
    if (!m_arguments.empty() && m_arguments.front() == complete_request) {
      print(completion_lines(complete({m_arguments.begin() + 1, m_arguments.end()})));
      return exit_ok;
    }
    if (!m_arguments.empty() && m_arguments.front() == options_request) {
      print(option_lines_json());
      return exit_ok;
    }
    Call call = take_apart(m_arguments);
    const auto help_flag = std::ranges::find_if(m_arguments, [](const std::string& word) { return word == "--help" || word == "-h"; });
    const bool asks_for_help = has_flag(m_arguments, {"--help", "-h"});
    if (call.command == "help") {
      const HelpLength length = call.arguments.size() > 1 && call.arguments[1] == "all" ? HelpLength::all : HelpLength::first;
      return help(call.arguments.empty() ? "" : call.arguments.front(), length);
    }
    if (call.command.empty()) {
      refuse_options_alone(call.arguments);
      if (has_flag(call.arguments, {"--version"})) {
        print(version_document(m_form));
        return exit_ok;
      }
      return help("", HelpLength::first);
    }
    m_command = call.command;
    const CommandEntry& entry = find_command(call.command);
    if (!asks_for_help) return run_command(entry, call.arguments);
    const bool all = help_flag != m_arguments.end() && std::next(help_flag) != m_arguments.end() && *std::next(help_flag) == "all";
    return help(call.command, all ? HelpLength::all : HelpLength::first);
  }

  enum class HelpLength { first, all };

  int help(const std::string& command, HelpLength length) {
    const int width = m_form == Form::text ? width_of(Stream::output) : 80;
    if (command.empty())
      print(help_document("", ended(help_text("dsanalyze", width)) + "\n" + command_list(width), m_form));
    else
      print(help_document(
          command, length == HelpLength::all ? help_text(find_command(command).name, width) : short_help_text(find_command(command).name, width),
          m_form));
    return exit_ok;
  }

  int run_command(const CommandEntry& entry, const std::vector<std::string>& arguments) {
    const TypedOptions typed(entry, arguments);
    const CommonOptions options = common_options(typed);
    const auto command = entry.make();
    if (options.output) require_writable(*options.output);
    TerminalEvents events(event_look(options), write_error, *system_timing().clock);
    Outcome outcome;
    try {
      outcome = command->run({options,
                              typed,
                              events,
                              m_interrupt.token(),
                              {colour_of(text_stream(), options.colour), width_of(text_stream())},
                              [stop = m_interrupt.token()](std::string_view text) { write_output(text, stop); }});
    } catch (...) {
      events.finish();
      throw;
    }
    events.finish();
    if (outcome.json.empty() && outcome.text.empty()) return outcome.exit_code;
    if (options.output) outcome.files.push_back({*options.output, ended(outcome.file.value_or(outcome.json))});
    const std::string result = ended(m_form == Form::json ? outcome.json : outcome.text);
    if (outcome.order == WriteOrder::result_first) return leave_result_first(outcome, result);
    for (const LeftFile& file : outcome.files) write_file_atomically(file.path, file.content);
    print(result);
    if (outcome.once_written) outcome.once_written();
    return outcome.exit_code;
  }

  /// Does all that can be done, whatever fails.
  int leave_result_first(const Outcome& outcome, const std::string& result) {
    int exit_code = outcome.exit_code;
    bool complete = true;
    const auto attempt = [&](const auto& step) {
      try {
        step();
      } catch (const std::exception& error) {
        complete = false;
        const int failed = fail(ErrorKind::failed, error.what());
        if (exit_code != exit_regression && !outcome.exit_code_stays) exit_code = failed;
      }
    };
    const auto tell = [&](const std::string& text) {
      if (m_form == Form::text && outcome.exit_code_stays)
        write_error(text);
      else
        print(text);
    };
    attempt([&] { tell(result); });
    for (const LeftFile& file : outcome.files) attempt([&] { write_file_atomically(file.path, file.content); });
    if (complete && m_form == Form::text && !outcome.text_once_written.empty()) attempt([&] { tell(ended(outcome.text_once_written)); });
    return exit_code;
  }

  int fail(ErrorKind kind, const std::string& message) {
    const int exit_code = m_stands_for_another && kind != ErrorKind::interrupted ? exit_own_failure : exit_code_of(kind);
    std::string text = printable_lines(fmt::format("dsanalyze{}: error: {}\n", m_command.empty() ? "" : " " + m_command, message));
    if (kind == ErrorKind::usage) text += fmt::format("see: dsanalyze{} --help\n", known_command() ? " " + m_command : "");
    write_error(text);
    if (m_tells_errors && m_interrupt.claim_output()) {
      try {
        write_output(ended(error_json(kind, message, exit_code)), m_interrupt.token());
      } catch (const std::exception& error) {
        write_error(fmt::format("dsanalyze: error: {}\n", error.what()));
      }
    }
    return exit_code;
  }

  [[nodiscard]] bool known_command() const {
    return std::ranges::any_of(commands(), [this](const CommandEntry& entry) { return entry.name == m_command; });
  }

  const std::vector<std::string>& m_arguments;
  Form m_form;
  bool m_tells_errors;        ///< as documents
  bool m_stands_for_another;  ///< the exit code is that of a command that it runs
  InterruptWatch m_interrupt;
  std::string m_command;
};

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  // Whatever could be thrown while this is set up (no memory, no thread) can be reported only to the caller's shell.
  try {
    if (const auto ended = run_as_job_process(arguments)) return *ended;
    return Program(arguments).run();
  } catch (const std::exception& error) {
    write_error(fmt::format("dsanalyze: error: {}\n", error.what()));
    return exit_failed;
  }
}

}  // namespace dsanalyze::cli
