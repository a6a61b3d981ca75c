#include "command.hpp"

#include <fmt/format.h>

#include <system_error>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "cli/options/typed_options.hpp"
#include "saved_profiles.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::size_t most_results = 12;

class ReportCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const std::string format = chosen_format(context.options, context.typed.text("--format"));
    const std::vector<std::string>& named = context.typed.texts("RESULT");
    std::vector<std::filesystem::path> files(named.begin(), named.end());
    if (files.empty()) {
      files.push_back(last_profile_path());
      context.events.note("using the last profile, " + files.front().string());
    }
    if (files.size() > most_results)
      throw UsageError(fmt::format("{} results are given; side by side at most {} can be read: leave some out", files.size(), most_results));
    if (context.options.output) refuse_overwriting(files, *context.options.output);

    const std::vector<ReportInput> inputs = read_report_inputs(files, format != "console" || context.options.json);
    Outcome outcome;
    if (context.options.json || format == "json") outcome.json = json_report(inputs);
    std::string document = format == "html"       ? html_report(inputs, report_assets())
                           : format == "markdown" ? markdown_report(inputs)
                           : format == "json"     ? outcome.json
                                                  : console_report(inputs, context.style);
    if (context.options.output) {
      outcome.text = fmt::format("written: {} ({}, {})\n", context.options.output->string(), format, format_bytes(document.size()));
      outcome.file = std::move(document);
    } else {
      outcome.text = std::move(document);
    }
    return outcome;
  }

 private:
  /// --format; without it what the name of -o FILE says; without that the console's.
  static std::string chosen_format(const CommonOptions& options, const std::string& format) {
    if (!format.empty()) {
      if (options.json && format != "json" && !options.output)
        throw UsageError(
            fmt::format("--json and --format {} both want the output: write the {} to a file with -o FILE, or leave out --json", format, format));
      return format;
    }
    if (!options.output) return options.json ? "json" : "console";
    const std::string extension = options.output->extension().string();
    if (extension == ".html" || extension == ".htm") return "html";
    if (extension == ".md" || extension == ".markdown") return "markdown";
    if (extension == ".txt") return "console";
    if (extension == ".json" || options.json) return "json";
    throw UsageError(fmt::format("-o {}: its name does not say which form (.html, .md, .txt, .json): pass --format html, markdown, console or json",
                                 printable(options.output->string())));
  }

  static void refuse_overwriting(const std::vector<std::filesystem::path>& files, const std::filesystem::path& output) {
    for (const std::filesystem::path& file : files) {
      std::error_code error;
      if (std::filesystem::equivalent(file, output, error))
        throw UsageError(fmt::format("-o {}: is one of the results that the report is made from; name another file", output.string()));
    }
  }
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace dsanalyze::cli
