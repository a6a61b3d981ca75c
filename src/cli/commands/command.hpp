#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "base/text/json_reader.hpp"
#include "report/report.hpp"

namespace dsanalyze {
struct ProfileInputs;
}  // namespace dsanalyze

namespace dsanalyze::cli {

class TypedOptions;

enum class ColourChoice { automatic, always, never };
constexpr std::array<const char*, 3> names_of(ColourChoice /*type*/) { return {"auto", "always", "never"}; }

/// The options that every command has.
struct CommonOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  ColourChoice colour = ColourChoice::automatic;
  std::optional<std::filesystem::path> output;
  std::uint64_t seed = 1;
};

/// What a command is run with.
struct CommandContext {
  const CommonOptions& options;
  const TypedOptions& typed;
  EventSink& events;
  std::stop_token stop;
  ConsoleStyle style;  ///< of stdout
  /// Writes to stdout at once, before the result; for what others wait for. Not with --json. Throws Error.
  std::function<void(std::string_view)> say;
};

/// Exit codes of the program (0 also with findings). exit_own_failure stands for all errors where the exit code is another program's otherwise.
enum ExitCode {
  exit_ok = 0,
  exit_failed = 1,
  exit_usage = 2,
  exit_regression = 3,
  exit_undecided = 4,
  exit_own_failure = 125,
  exit_interrupted = 130
};

/// A file that a command leaves, whole.
struct LeftFile {
  std::filesystem::path path;
  std::string content;
};

/// result_first: what a file that cannot be written must not cost is printed before any is; each failure is told, and ends with exit code 1, but a
/// regression stays one.
enum class WriteOrder { files_first, result_first };

/// What a command leaves: the frame writes `json` to stdout with --json and to -o FILE, `text` to stdout otherwise.
/// Without json and text nothing is told or written: another process of the same job does.
struct Outcome {
  std::string json;
  std::string text;
  int exit_code = exit_ok;
  std::optional<std::string> file{};  ///< what -o FILE gets instead of `json`
  std::vector<LeftFile> files{};      ///< written beside -o FILE
  WriteOrder order = WriteOrder::files_first;
  bool exit_code_stays = false;          ///< result_first: it is another program's, as stdout is, so `text` goes to stderr
  std::string text_once_written{};       ///< result_first: follows `text` once all files are written
  std::function<void()> once_written{};  ///< called when all of it is, with files first; the command still is there
};

/// One command. An object serves one run. Its options are rows of the tables in cli/options, none of which is required: run() says better what is
/// missing.
class Command {
 public:
  virtual ~Command() = default;
  /// Throws Error, UsageError, Interrupted; prints nothing.
  virtual Outcome run(const CommandContext& context) = 0;
};

// Each in its own source.
std::unique_ptr<Command> make_profile_command();
std::unique_ptr<Command> make_whatif_command();
std::unique_ptr<Command> make_gate_command();
std::unique_ptr<Command> make_simulate_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_share_command();
std::unique_ptr<Command> make_verify_resume_command();
std::unique_ptr<Command> make_dataset_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_list_command();
std::unique_ptr<Command> make_completions_command();

/// What `profile` tells before it begins: the doctor's warnings about these inputs, as they were asked for.
std::vector<Finding> doctor_before_profile(const ProfileInputs& inputs, const ProfileSettings& asked);

/// What may stand behind "--".
enum class AfterDashes { nothing, a_command };

/// A line of the dispatch table. The help page is `name`.md.
struct CommandEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Command> (*make)();
  AfterDashes after_dashes = AfterDashes::nothing;
};
std::span<const CommandEntry> commands();

/// The whole program: finds the command, parses, runs it, writes what it leaves, turns errors into messages (or dsanalyze.error/1) and exit codes.
/// `arguments` are without the program's name. Never throws.
int run_program(const std::vector<std::string>& arguments);

/// `text` if it is one of `choices`; else a UsageError that names the option, suggests the nearest and lists all.
std::string checked_choice(std::string_view option, const std::string& text, const std::vector<std::string>& choices);

}  // namespace dsanalyze::cli
