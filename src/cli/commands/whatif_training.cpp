#include "whatif_training.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/statistics.hpp"
#include "base/text/text.hpp"
#include "cli/options/attach_options.hpp"
#include "cli/options/search_options.hpp"
#include "cli/process/data_files.hpp"
#include "models/whatif/training_advice.hpp"
#include "models/whatif/training_model.hpp"
#include "validate/validate_training.hpp"

namespace dsanalyze::cli {
namespace {

void refuse_options(const TypedOptions& typed) {
  const auto refuse = [&typed](const char* option, const std::string& reason) {
    if (typed.given(option)) throw UsageError(fmt::format("{}: {}", option, reason));
  };
  const std::string own =
      "a profile of a launched training knows no rates of storage and memory, which this needs. Profile its dataset with dsanalyze's own "
      "loader (dsanalyze profile DATASET)";
  for (const char* const option : {"--job-mix", "--rates", "--staging-size", "--staging-policy"}) refuse(option, own);
}

RateModel searchable(const TrainingModel& model) {
  try {
    return hardware_model(model);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--search: {}", error.what()));
  }
}

TrainingRuns training_runs(const ProfileResult& profile, const CommandContext& context) {
  TrainingRuns runs;
  runs.host = read_host_facts();
  runs.settings.command = profile.command;
  runs.settings.hook = hook_directory();
  runs.settings.output = SpawnWay::Output::to_stderr;
  runs.settings.working_directory = profile.launch->working_directory;
  runs.settings.plan.kept_bytes = 0;
  runs.settings.sandbox = sandbox_for(context.typed, profile.command);
  if (!runs.settings.sandbox->refusal.empty())
    context.events.note(fmt::format("plan: no sandbox ({}): what the runs write stays", runs.settings.sandbox->refusal));
  runs.folder = [] {
    const auto folder = std::make_shared<const PrivateFolder>();
    return std::shared_ptr<const std::filesystem::path>(folder, &folder->path());
  };
  return runs;
}

}  // namespace

Outcome whatif_of_training(const ProfileResult& profile, const std::string& name, const CommandContext& context) {
  const TypedOptions& typed = context.typed;
  refuse_options(typed);
  const SearchOptions search(typed);
  const bool searches = search.asked();
  TrainingModel model = training_model(profile);
  double run_scatter = 0;
  typed.set(run_scatter, "--run-scatter", parse_share);
  model.run_error = normal_quantile(0.975) * std::sqrt(2.0) * run_scatter;
  WhatIfQuestion question;
  typed.put(question);
  if (typed.given("--storage"))
    question.storage = storage_changes(typed, model.storage ? std::optional(model.storage->bytes_per_sample) : std::nullopt);

  std::optional<SearchResult> searched;
  if (searches) {
    if (!question.workers.empty()) throw UsageError("--workers does not go with --search: each configuration has as many workers as it needs");
    if (typed.given("--validate")) throw UsageError("--validate does not go with --search: what it finds is another machine");
    searched = search.search(searchable(model), question, &profile, context);
    // The lists narrow the search alone; what is to be found is of this machine.
    WhatIfQuestion here;
    here.find = std::move(question.find);
    question = std::move(here);
  }

  const auto answered = [&](WhatIfQuestion::Combine combine) {
    question.combine = combine;
    WhatIfResult result = answer(model, question);
    result.source = name;
    result.search = searched;
    if (!profile.trusted)
      result.findings.insert(result.findings.begin(),
                             {"profile-not-trusted", Finding::Severity::warning,
                              "The profile is not trusted (its findings say why), so neither are these answers. Profile again after fixing that."});
    return result;
  };
  const auto typed_combination = typed.given("--all") ? WhatIfQuestion::Combine::every_combination : WhatIfQuestion::Combine::one_at_a_time;
  Outcome outcome;
  if (!typed.given("--validate")) {
    if (context.options.json || context.options.output) outcome.json = to_json(answered(WhatIfQuestion::Combine::every_combination));
    if (!context.options.json) outcome.text = console_summary(answered(typed_combination), context.style);
    return outcome;
  }
  WhatIfResult result = answered(typed_combination);
  double seconds = 0;
  typed.set(seconds, "--time-budget", parse_seconds);
  for (Finding& finding : check_same_command(profile, std::filesystem::current_path())) {
    context.events.finding(finding);
    result.findings.push_back(std::move(finding));
  }
  const TrainingRuns runs = training_runs(profile, context);
  const TrainingValidationPlan plan = plan_training_validation(profile, runs.host, result, seconds);
  context.events.note(plan_text(plan, result.answers.size()));
  validate_training(plan, profile, runs, result, context.events, context.stop, system_timing());
  outcome.exit_code = result.validation->outcome == "passed" ? exit_ok : result.validation->outcome == "failed" ? exit_failed : exit_undecided;
  if (context.options.json || context.options.output) outcome.json = to_json(result);
  if (!context.options.json) outcome.text = console_summary(result, context.style);
  return outcome;
}

void advise_training(ProfileResult& profile, const std::string& place) {
  try {
    const TrainingModel model = training_model(profile);
    profile.advice = advise(profile, model);
    profile.predicted_steady = steady_of(model);
    std::optional<FixRecord> fix = fix_of(model);
    if (!fix || !gains_over_epochs(profile, *fix)) return;
    const std::string file = place.empty() ? "" : " " + shell_word(place.front() == '-' ? "./" + place : place);
    fix->check = fmt::format("dsanalyze whatif{} --workers {} --validate", file, fix->workers);
    WhatIfQuestion question;
    question.workers = {fix->workers};
    WhatIfResult result = answer(model, question);
    fix->check_seconds = plan_training_validation(profile, read_host_facts(), result, 0).seconds;
    profile.fix = std::move(fix);
  } catch (const std::exception&) {  // What the models refuse is no reason to lose the measurement.
  }
}

}  // namespace dsanalyze::cli
