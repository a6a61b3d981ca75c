#include "command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "cli/terminal/output_files.hpp"
#include "gate/gate.hpp"

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

/// Parses the text of an option, if it was given; errors name the option.
template <typename Parse>
auto parsed(const std::string& option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

struct View {
  OutputFile file;
  std::string (*content)(const GateResult& result);
};

class GateCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("CURRENT", m_results)->type_name("FILE|FOLDER");
    for (const auto& [name, text] : std::initializer_list<std::pair<const char*, std::string*>>{{"--baseline-command", &m_baseline_command},
                                                                                                {"--current-command", &m_current_command},
                                                                                                {"--min-effect", &m_min_effect},
                                                                                                {"--metrics", &m_metrics},
                                                                                                {"--pairs", &m_pairs},
                                                                                                {"--warm-ups", &m_warm_ups},
                                                                                                {"--time-budget", &m_time_budget},
                                                                                                {"--run-timeout", &m_run_timeout}})
      app.add_option(name, *text);
    app.add_option("--junit", m_junit)->type_name("FILE");
    app.add_option("--markdown", m_markdown)->type_name("FILE");
    app.add_option("--annotations", m_annotations)->type_name("github|gitlab:");
    app.add_option("--baseline", m_baseline)->type_name("FILE|FOLDER")->allow_extra_args(false);
    app.add_option("--ignore", m_ignore)->allow_extra_args(false);
    app.add_flag("--allow-untrusted", m_allow_untrusted);
    app.add_flag("--normalize", m_normalize);
    CLI::App* accept = app.add_subcommand("accept");
    accept->add_option("RESULT", m_results)->type_name("FILE|FOLDER");
    accept->add_flag("--replace", m_replace);
    accept->callback([this] { m_accepts = true; });
  }

  Outcome run(const CommandContext& context) override {
    const GateOptions options = gate_options(context.options.seed);
    if (m_accepts) return accept(options, context.options);
    const std::vector<View> views = wanted_views(context.options);
    const bool by_commands = !m_baseline_command.empty() || !m_current_command.empty();
    const GateResult result = by_commands ? compare_by_turns(options, context) : compare_files(options);
    Outcome outcome;
    outcome.json = to_json(result);
    outcome.text = console_summary(result, context.style);
    if (m_annotations == "github") outcome.text += "\n" + gate_github_annotations(result);
    outcome.exit_code = gate_exit_code(result.verdict);
    for (const View& view : views) outcome.files.push_back({view.file.path, view.content(result)});
    outcome.order = WriteOrder::result_first;
    return outcome;
  }

 private:
  [[nodiscard]] GateOptions gate_options(std::uint64_t seed) const {
    GateOptions options;
    options.seed = seed;
    if (!m_min_effect.empty()) options.min_effect = parsed("--min-effect", m_min_effect, parse_share);
    if (!m_metrics.empty()) options.metrics = parsed("--metrics", m_metrics, split_list);
    for (const std::string& list : m_ignore)
      for (std::string& field : parsed("--ignore", list, split_list)) options.ignore.push_back(std::move(field));
    if (m_allow_untrusted) options.untrusted = Untrusted::accept;
    if (m_normalize) options.normalize = Normalize::by_calibration;
    options.validate();
    return options;
  }

  /// Checked before anything is measured.
  [[nodiscard]] std::vector<View> wanted_views(const CommonOptions& common) const {
    std::vector<View> views;
    if (!m_junit.empty()) views.push_back({{"--junit", m_junit}, gate_junit});
    if (!m_markdown.empty()) views.push_back({{"--markdown", m_markdown}, gate_markdown});
    static const std::string gitlab = "gitlab:";
    if (m_annotations.starts_with(gitlab) && m_annotations.size() > gitlab.size()) {
      views.push_back({{"--annotations", m_annotations.substr(gitlab.size())}, gate_gitlab_report});
    } else if (m_annotations == "github" && common.json) {
      throw UsageError("--annotations github writes lines to stdout, which --json keeps for one document: use -o FILE for the JSON");
    } else if (!m_annotations.empty() && m_annotations != "github") {
      throw UsageError(fmt::format("--annotations: found \"{}\", expected github, or gitlab:FILE for a code quality report", m_annotations));
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
          "results and commands are both given: compare results (--baseline FILE|DIR CURRENT...) or run commands by turns "
          "(--baseline-command CMD --current-command CMD)");
    GateCommands commands;
    commands.baseline = m_baseline_command;
    commands.current = m_current_command;
    if (!m_pairs.empty()) commands.most_pairs = whole("--pairs", m_pairs, 2, 1000);
    if (!m_warm_ups.empty()) commands.warm_ups = whole("--warm-ups", m_warm_ups, 0, 10);
    if (!m_time_budget.empty()) commands.time_budget_seconds = parsed("--time-budget", m_time_budget, parse_seconds);
    if (!m_run_timeout.empty()) commands.run_seconds = parsed("--run-timeout", m_run_timeout, parse_seconds);
    return compare_commands(commands, options, shell_runner(commands, context.stop), context.events, context.stop, *system_timing().clock);
  }

  [[nodiscard]] GateResult compare_files(const GateOptions& options) const {
    for (const auto& [option, text] : std::initializer_list<std::pair<const char*, const std::string*>>{
             {"--pairs", &m_pairs}, {"--warm-ups", &m_warm_ups}, {"--time-budget", &m_time_budget}, {"--run-timeout", &m_run_timeout}})
      if (!text->empty()) throw UsageError(fmt::format("{} belongs to --baseline-command and --current-command: nothing is run here", option));
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

  [[nodiscard]] Outcome accept(const GateOptions& options, const CommonOptions& common) const {
    for (const auto& [option, given] : std::initializer_list<std::pair<const char*, bool>>{{"--baseline-command", !m_baseline_command.empty()},
                                                                                           {"--current-command", !m_current_command.empty()},
                                                                                           {"--junit", !m_junit.empty()},
                                                                                           {"--markdown", !m_markdown.empty()},
                                                                                           {"--annotations", !m_annotations.empty()},
                                                                                           {"--metrics", !m_metrics.empty()},
                                                                                           {"--normalize", m_normalize}})
      if (given) throw UsageError(fmt::format("{} has no meaning with `gate accept`, which compares nothing", option));
    if (m_baseline.size() != 1) throw UsageError("the store is missing: dsanalyze gate accept RESULT.json... --baseline DIR");
    check_outputs(std::vector<OutputFile>{{"-o", common.output.value_or("")}}, inputs());
    const auto accepted =
        accept_baselines(m_baseline.front(), read_gate_runs({m_results.begin(), m_results.end()}), options, m_replace ? Replace::yes : Replace::no);
    nlohmann::ordered_json json = {
        {"schema", "dsanalyze.accepted/1"}, {"store", printable(m_baseline.front())}, {"accepted", nlohmann::ordered_json::array()}};
    std::string text;
    for (const AcceptedResult& each : accepted) {
      json["accepted"].push_back({{"path", printable(each.path.string())}, {"already_there", each.already_there}});
      text += fmt::format("{}: {}\n", each.already_there ? "already there" : "accepted", printable(each.path.string()));
    }
    return {json.dump(2) + "\n", text};
  }

  [[nodiscard]] static int whole(const std::string& option, const std::string& text, int low, int high) {
    return parsed(option, text, [&](const std::string& number) { return static_cast<int>(parse_integer(number, low, high)); });
  }

  std::vector<std::string> m_results, m_baseline, m_ignore;
  std::string m_baseline_command, m_current_command, m_min_effect, m_metrics, m_pairs, m_warm_ups, m_time_budget, m_run_timeout, m_junit, m_markdown,
      m_annotations;
  bool m_allow_untrusted = false;
  bool m_normalize = false;
  bool m_replace = false;
  bool m_accepts = false;
};

}  // namespace

std::unique_ptr<Command> make_gate_command() { return std::make_unique<GateCommand>(); }

}  // namespace dsanalyze::cli
