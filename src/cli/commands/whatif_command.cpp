#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/system/files.hpp"
#include "cli/options/search_options.hpp"
#include "models/whatif/job_mix.hpp"
#include "models/whatif/whatif.hpp"
#include "saved_profiles.hpp"
#include "validate/validate.hpp"
#include "whatif_training.hpp"

namespace dsanalyze::cli {
namespace {

using Combine = WhatIfQuestion::Combine;

constexpr Bytes max_job_mix_bytes = Bytes{1} << 24;

/// What the answers rest on.
struct Source {
  std::string name;
  std::optional<ProfileResult> profile;  ///< none with typed rates
  RateModel model;
  std::vector<Finding> findings;
};

class WhatIfCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const TypedOptions& typed = context.typed;
    const SearchOptions search(typed);
    const bool searches = search.asked();
    const bool validates = typed.given("--validate");
    if (typed.given("--time-budget") && !validates) throw UsageError("--time-budget: is that of --validate, which runs the answers; add it");
    const Source source = read_source(context);
    if (source.profile && !source.profile->command.empty()) return whatif_of_training(*source.profile, source.name, context);
    if (typed.given("--job-mix")) return mixed(source, context);
    for (const char* const option : {"--staging-size", "--staging-policy"})
      if (typed.given(option)) throw UsageError(fmt::format("{}: is of jobs that differ; add --job-mix FILE", option));
    std::optional<SearchResult> searched;
    if (searches) searched = search.search(source.model, whatif_question(typed, source.model), source.profile ? &*source.profile : nullptr, context);
    Outcome outcome;
    if (validates) return proved(source, searched, context);
    // JSON always holds every combination; on the console they would hide the answer.
    if (context.options.json || context.options.output) outcome.json = to_json(answered(context, source, searched, Combine::every_combination));
    if (!context.options.json) outcome.text = console_summary(answered(context, source, searched, combinations(typed)), context.style);
    return outcome;
  }

 private:
  static Combine combinations(const TypedOptions& typed) { return typed.given("--all") ? Combine::every_combination : Combine::one_at_a_time; }

  /// Jobs that differ: the configuration as measured, or with one change of each kind, and what they reach on it.
  static Outcome mixed(const Source& source, const CommandContext& context) {
    const TypedOptions& typed = context.typed;
    for (const char* const option : {"--search", "--validate", "--find"})
      if (typed.given(option)) throw UsageError(fmt::format("{}: does not answer for a job mix; leave one of the two out", option));
    WhatIfQuestion setup = whatif_question(typed, source.model);
    JobMixQuestion question;
    typed.put(question);
    question.path = typed.text("--job-mix");
    question.mix = parse_job_mix(read_file(question.path, max_job_mix_bytes), question.path);
    question.shares = std::exchange(setup.shares, {});
    question.seed = context.options.seed;
    const bool dependent = question.shares.empty() || std::ranges::find(question.shares, JobSharing::dependent) != question.shares.end();
    if (!dependent && (typed.given("--staging-size") || typed.given("--staging-policy")))
      throw UsageError("--staging-size and --staging-policy: only jobs that draw dependently keep samples for later; add --share dependent");
    std::vector<Finding> findings;
    WhatIfJobMix mix = answer_job_mix(source.model, setup, question, findings, [&context](double done) {
      if (context.stop.stop_requested()) throw Interrupted();
      context.events.progress({"simulating the jobs", done, -1});
    });
    setup.combine = combinations(typed);
    WhatIfResult result = answer(source.model, setup);
    result.source = source.name;
    result.job_mix = std::move(mix);
    result.advice.clear();  // is for one job alone
    result.findings.insert(result.findings.begin(), source.findings.begin(), source.findings.end());
    for (Finding& finding : findings)
      if (std::ranges::find(result.findings, finding.code, &Finding::code) == result.findings.end()) result.findings.push_back(std::move(finding));
    Outcome outcome;
    if (context.options.json || context.options.output) outcome.json = to_json(result);
    if (!context.options.json) outcome.text = console_summary(result, context.style);
    return outcome;
  }

  static WhatIfResult answered(const CommandContext& context, const Source& source, const std::optional<SearchResult>& searched, Combine combine) {
    WhatIfQuestion question = whatif_question(context.typed, source.model);
    question.combine = combine;
    WhatIfResult result = answer(source.model, question, [&context](double done) {
      if (context.stop.stop_requested()) throw Interrupted();
      context.events.progress({"moving samples through the loader", done, -1});
    });
    result.source = source.name;
    result.search = searched;
    result.findings.insert(result.findings.begin(), source.findings.begin(), source.findings.end());
    return result;
  }

  /// The answers, and what running them gives: the same ones in JSON and on the console, for each takes time.
  static Outcome proved(const Source& source, const std::optional<SearchResult>& searched, const CommandContext& context) {
    const TypedOptions& typed = context.typed;
    if (!source.profile)
      throw UsageError(
          "--validate: needs a profile, which knows the loader, the dataset and how its times are distributed; typed rates do not. `dsanalyze "
          "profile DATASET` makes one");
    WhatIfResult result = answered(context, source, searched, combinations(typed));
    ValidationOptions options;
    typed.set(options.seconds, "--time-budget", parse_seconds);
    const ProfileInputs inputs = inputs_of(*source.profile, context);
    context.events.note(plan_text(plan_validation(inputs, *source.profile, result, options), result.answers.size()));
    validate(inputs, *source.profile, result, options, context.events, context.stop, system_timing());
    Outcome outcome;
    outcome.exit_code = result.validation->outcome == "passed" ? exit_ok : result.validation->outcome == "failed" ? exit_failed : exit_undecided;
    if (context.options.json || context.options.output) outcome.json = to_json(result);
    if (!context.options.json) outcome.text = console_summary(result, context.style);
    return outcome;
  }

  static Source read_source(const CommandContext& context) {
    const TypedOptions& typed = context.typed;
    const std::string& rates = typed.text("--rates");
    const std::string& profile = typed.text("PROFILE");
    if (!rates.empty() && profile.empty()) {
      if (typed.given("--run-scatter"))
        throw UsageError("--run-scatter: is that of a profile's rates; typed rates have their error beside them: P=735±5%");
      return {"typed rates", std::nullopt, rate_model_from_text(rates, typed.text("--base")), {}};
    }
    if (typed.given("--base"))
      throw UsageError("--base describes the configuration behind typed rates (--rates); a profile knows its own: leave --base out, or add --rates");
    const std::filesystem::path path = profile.empty() ? last_profile_path() : std::filesystem::path(profile);
    if (profile.empty()) context.events.note("using the last profile, " + path.string());
    Source source;
    source.name = path.string();
    source.profile = profile_from_json(read_file(path), source.name);
    if (!source.profile->command.empty()) return source;
    if (!source.profile->trusted)
      source.findings.push_back(
          {"profile-not-trusted", Finding::Severity::warning,
           "The profile is not trusted (its findings say why), so neither are these answers. Profile again after fixing that."});
    source.model = rate_model(*source.profile);
    double run_scatter = 0;
    typed.set(run_scatter, "--run-scatter", parse_share);
    source.model.run_error = normal_quantile(0.975) * std::sqrt(2.0) * run_scatter;  // of the run that measured and of the one that is predicted
    if (!rates.empty()) take_typed_network(rates, source.model);
    return source;
  }
};

}  // namespace

std::unique_ptr<Command> make_whatif_command() { return std::make_unique<WhatIfCommand>(); }

}  // namespace dsanalyze::cli
