#include "command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>

#include "base/distributions.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "cli/options/option_values.hpp"
#include "cli/options/search_options.hpp"
#include "models/simulate/profile_simulation.hpp"
#include "models/whatif/whatif.hpp"
#include "saved_inputs.hpp"
#include "saved_profiles.hpp"
#include "validate/validate.hpp"
#include "whatif_lists.hpp"

namespace dsanalyze::cli {
namespace {

using Combine = WhatIfQuestion::Combine;

constexpr std::size_t most_simulated = 1000;

/// What the answers rest on.
struct Source {
  std::string name;
  std::optional<ProfileResult> profile;  ///< none with typed rates
  RateModel model;
  std::vector<Finding> findings;
};

class WhatIfCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PROFILE", m_profile)->type_name("FILE");
    app.add_option("--rates", m_rates);
    app.add_option("--base", m_base);
    app.add_option("--run-scatter", m_run_scatter);
    m_lists.declare(app);
    app.add_flag("--all", m_all);
    app.add_flag("--simulate", m_simulate);
    app.add_flag("--validate", m_validate);
    app.add_option("--time-budget", m_time_budget);
    m_search.declare(app);
  }

  Outcome run(const CommandContext& context) override {
    const bool search = m_search.asked();
    if (!m_time_budget.empty() && !m_validate) throw UsageError("--time-budget: is that of --validate, which runs the answers; add it");
    const Source source = read_source(context);
    std::optional<SearchResult> searched;
    if (search) searched = m_search.search(source.model, m_lists.question(source.model), source.profile ? &*source.profile : nullptr, context);
    Outcome outcome;
    if (m_simulate || m_validate) return proved(source, searched, context);
    // JSON always holds every combination; on the console they would bury the answer.
    if (context.options.json || context.options.output) outcome.json = to_json(answered(source, searched, Combine::every_combination));
    if (!context.options.json) outcome.text = console_summary(answered(source, searched, combinations()), context.style);
    return outcome;
  }

 private:
  [[nodiscard]] Combine combinations() const { return m_all ? Combine::every_combination : Combine::one_at_a_time; }

  [[nodiscard]] WhatIfResult answered(const Source& source, const std::optional<SearchResult>& searched, Combine combine) const {
    WhatIfQuestion question = m_lists.question(source.model);
    question.combine = combine;
    WhatIfResult result = answer(source.model, question);
    result.source = source.name;
    result.search = searched;
    result.findings.insert(result.findings.begin(), source.findings.begin(), source.findings.end());
    return result;
  }

  /// The answers by the epoch simulator, and by running them: the same ones in JSON and on the console, for each takes time.
  [[nodiscard]] Outcome proved(const Source& source, const std::optional<SearchResult>& searched, const CommandContext& context) const {
    if (!source.profile)
      throw UsageError(
          fmt::format("{}: needs a profile, which knows the loader, the dataset and how its times are distributed; typed rates do not. `dsanalyze "
                      "profile DATASET` makes one",
                      m_validate ? "--validate" : "--simulate"));
    WhatIfResult result = answered(source, searched, combinations());
    if (result.answers.size() > most_simulated)
      throw UsageError(fmt::format(
          "the lists make {} set-ups, of which each takes a part of a second to simulate: shorten them to {}, or leave out {}",
          format_number(static_cast<double>(result.answers.size())), format_number(most_simulated), m_validate ? "--validate" : "--simulate"));
    ValidationOptions options;
    if (!m_time_budget.empty()) options.seconds = parse_seconds(m_time_budget);
    std::optional<ProfileInputs> inputs;
    if (m_validate) {
      inputs = inputs_of(*source.profile, context);
      context.events.note(plan_text(plan_validation(*inputs, *source.profile, result, options), result.answers.size()));
    }
    simulate_answers(*source.profile, result, [&context](double done) {
      if (context.stop.stop_requested()) throw Interrupted();
      context.events.progress({"simulating epochs", done, -1});
    });
    Outcome outcome;
    if (m_validate) {
      validate(*inputs, *source.profile, result, options, context.events, context.stop, system_timing());
      outcome.exit_code = result.validation->outcome == "passed" ? exit_ok : result.validation->outcome == "failed" ? exit_failed : exit_undecided;
    }
    if (context.options.json || context.options.output) outcome.json = to_json(result);
    if (!context.options.json) outcome.text = console_summary(result, context.style);
    return outcome;
  }

  [[nodiscard]] Source read_source(const CommandContext& context) const {
    if (!m_rates.empty() && m_profile.empty()) {
      if (!m_run_scatter.empty()) throw UsageError("--run-scatter: is that of a profile's rates; typed rates have their error beside them: P=735±5%");
      return {"typed rates", std::nullopt, rate_model_from_text(m_rates, m_base), {}};
    }
    if (!m_base.empty())
      throw UsageError("--base describes the set-up behind typed rates (--rates); a profile knows its own: leave --base out, or add --rates");
    const std::filesystem::path path = m_profile.empty() ? last_profile_path() : std::filesystem::path(m_profile);
    if (m_profile.empty()) context.events.note("using the last profile, " + path.string());
    Source source;
    source.name = path.string();
    source.profile = profile_from_json(read_file(path), source.name);
    if (!source.profile->trusted)
      source.findings.push_back(
          {"profile-not-trusted", Finding::Severity::warning,
           "The profile is not trusted (its findings say why), so neither are these answers. Profile again after mending that."});
    source.model = rate_model(*source.profile);
    double run_scatter = 0;
    set_if(run_scatter, "--run-scatter", m_run_scatter, parse_share);
    source.model.run_error = normal_quantile(0.975) * std::sqrt(2.0) * run_scatter;  // of the run that measured and of the one that is predicted
    if (!m_rates.empty()) take_typed_network(m_rates, source.model);
    return source;
  }

  std::string m_profile;
  std::string m_rates;
  std::string m_base;
  std::string m_time_budget;
  std::string m_run_scatter;
  bool m_all = false;
  bool m_simulate = false;
  bool m_validate = false;
  WhatIfLists m_lists;
  SearchOptions m_search;
};

}  // namespace

std::unique_ptr<Command> make_whatif_command() { return std::make_unique<WhatIfCommand>(); }

}  // namespace dsanalyze::cli
