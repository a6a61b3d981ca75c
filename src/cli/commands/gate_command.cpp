#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "cli/options/typed_options.hpp"
#include "cli/terminal/terminal.hpp"
#include "gate/gate.hpp"

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

struct View {
  OutputFile file;
  std::string (*content)(const GateResult& result);
};

class GateCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const TypedOptions& typed = context.typed;
    const bool accepts = typed.action() == "accept";
    m_results = typed.texts(accepts ? "RESULT" : "CURRENT");
    m_baseline = typed.texts("--baseline");
    const GateOptions options = gate_options(typed, context.options.seed);
    if (accepts) return accept(typed, options, context.options);
    const std::vector<View> views = wanted_views(typed, context.options);
    const bool by_commands = typed.given("--baseline-command") || typed.given("--current-command");
    const GateResult result = by_commands ? compare_by_turns(options, context) : compare_files(typed, options);
    Outcome outcome;
    outcome.json = to_json(result);
    outcome.text = console_summary(result, context.style);
    if (typed.text("--annotations") == "github") outcome.text += "\n" + gate_github_annotations(result);
    outcome.exit_code = gate_exit_code(result.verdict);
    for (const View& view : views) outcome.files.push_back({view.file.path, view.content(result)});
    outcome.order = WriteOrder::result_first;
    return outcome;
  }

 private:
  static GateOptions gate_options(const TypedOptions& typed, std::uint64_t seed) {
    GateOptions options;
    options.seed = seed;
    typed.put(options);
    for (const std::string& list : typed.texts("--ignore"))
      for (std::string& field : parsed("--ignore", list, split_list)) options.ignore.push_back(std::move(field));
    if (typed.given("--allow-untrusted")) options.untrusted = Untrusted::accept;
    if (typed.given("--normalize")) options.normalize = Normalize::by_calibration;
    options.validate();
    return options;
  }

  /// Checked before anything is measured.
  [[nodiscard]] std::vector<View> wanted_views(const TypedOptions& typed, const CommonOptions& common) const {
    std::vector<View> views;
    if (typed.given("--junit")) views.push_back({{"--junit", typed.text("--junit")}, gate_junit});
    if (typed.given("--markdown")) views.push_back({{"--markdown", typed.text("--markdown")}, gate_markdown});
    const std::string& annotations = typed.text("--annotations");
    static const std::string gitlab = "gitlab:";
    if (annotations.starts_with(gitlab) && annotations.size() > gitlab.size()) {
      views.push_back({{"--annotations", annotations.substr(gitlab.size())}, gate_gitlab_report});
    } else if (annotations == "github" && common.json) {
      throw UsageError("--annotations github writes lines to stdout, which --json keeps for one document: use -o FILE for the JSON");
    } else if (!annotations.empty() && annotations != "github") {
      throw UsageError(fmt::format("--annotations: found \"{}\", expected github, or gitlab:FILE for a code quality report", annotations));
    }
    std::vector<OutputFile> files = {{"-o", common.output.value_or("")}};
    for (const View& view : views) files.push_back(view.file);
    check_outputs(files, inputs());
    return views;
  }

  [[nodiscard]] std::vector<fs::path> inputs() const {
    std::vector<fs::path> places(m_results.begin(), m_results.end());
    places.insert(places.end(), m_baseline.begin(), m_baseline.end());
    return places;
  }

  [[nodiscard]] GateResult compare_by_turns(const GateOptions& options, const CommandContext& context) const {
    if (!m_baseline.empty() || !m_results.empty())
      throw UsageError(
          "results and commands are both given: compare results (--baseline FILE|DIR CURRENT...) or alternate runs of two commands "
          "(--baseline-command CMD --current-command CMD)");
    GateCommands commands;
    context.typed.put(commands);
    return compare_commands(commands, options, shell_runner(commands, context.stop), context.events, context.stop, *system_timing().clock);
  }

  [[nodiscard]] GateResult compare_files(const TypedOptions& typed, const GateOptions& options) const {
    for (const char* option : {"--pairs", "--warm-ups", "--time-budget", "--run-timeout"})
      if (typed.given(option)) throw UsageError(fmt::format("{} belongs to --baseline-command and --current-command: nothing is run here", option));
    if (m_baseline.empty())
      throw UsageError(
          "what to compare with is missing: --baseline FILE|DIR CURRENT..., or, better, as it cancels the machine's drift, "
          "--baseline-command CMD --current-command CMD");
    if (m_results.empty()) throw UsageError("the results to judge are missing: dsanalyze gate --baseline FILE|DIR CURRENT.json...");
    const std::vector<GateRun> current = read_gate_runs({m_results.begin(), m_results.end()});
    if (current.empty()) throw UsageError(fmt::format("there is no result in {}", printable(fmt::format("{}", fmt::join(m_results, ", ")))));
    if (there_is_no_store()) return result_without_baseline(m_baseline, current, options);
    const std::vector<GateRun> baseline = read_gate_runs({m_baseline.begin(), m_baseline.end()});
    return baseline.empty() ? result_without_baseline(m_baseline, current, options) : compare_results(baseline, current, options);
  }

  /// A store that is still to be made; a result that is not there is a mistake.
  [[nodiscard]] bool there_is_no_store() const {
    const fs::path place = m_baseline.front();
    return m_baseline.size() == 1 && place.extension() != ".json" && !fs::exists(place);
  }

  [[nodiscard]] Outcome accept(const TypedOptions& typed, const GateOptions& options, const CommonOptions& common) const {
    for (const char* option : {"--baseline-command", "--current-command", "--junit", "--markdown", "--annotations", "--metrics", "--normalize"})
      if (typed.given(option)) throw UsageError(fmt::format("{} has no meaning with `gate accept`, which compares nothing", option));
    if (m_baseline.size() != 1) throw UsageError("the store is missing: dsanalyze gate accept RESULT.json... --baseline DIR");
    check_outputs(std::vector<OutputFile>{{"-o", common.output.value_or("")}}, inputs());
    const auto accepted = accept_baselines(m_baseline.front(), read_gate_runs({m_results.begin(), m_results.end()}), options,
                                           typed.given("--replace") ? Replace::yes : Replace::no);
    nlohmann::ordered_json json = {
        {"schema", "dsanalyze.accepted/1"}, {"store", printable(m_baseline.front())}, {"accepted", nlohmann::ordered_json::array()}};
    std::string text;
    for (const AcceptedResult& each : accepted) {
      json["accepted"].push_back({{"path", printable(each.path.string())}, {"already_there", each.already_there}});
      text += fmt::format("{}: {}\n", each.already_there ? "already there" : "accepted", printable(each.path.string()));
    }
    return {json.dump(2) + "\n", text};
  }

  std::vector<std::string> m_results, m_baseline;
};

}  // namespace

std::unique_ptr<Command> make_gate_command() { return std::make_unique<GateCommand>(); }

}  // namespace dsanalyze::cli
