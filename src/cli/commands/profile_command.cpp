#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "attach/command_paths.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/process/spawn.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "cli/options/attach_options.hpp"
#include "cli/options/profile_options.hpp"
#include "cli/options/rank_options.hpp"
#include "cli/process/data_files.hpp"
#include "core/mesh.hpp"
#include "cuda/cuda_driver.hpp"
#include "doctor/gpu_state.hpp"
#include "loaders/prep/prep.hpp"
#include "models/whatif/whatif.hpp"
#include "profile/attached/attached_profile.hpp"
#include "profile/attached/own_prep.hpp"
#include "profile/attached/training_storage.hpp"
#include "profile/profiler.hpp"
#include "profile/pytorch_rate.hpp"
#include "report/report.hpp"
#include "saved_profiles.hpp"
#include "whatif_training.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view pytorch_prefix = "pytorch:";

std::string plan_text(const ProfilePlan& plan, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += fmt::format("warning: {} [{}]\n", finding.message, finding.code);
  for (const std::string& line : plan.lines) text += "plan: " + line + "\n";
  return text;
}

std::string plan_json(const ProfilePlan& plan, const std::vector<Finding>& findings) {
  nlohmann::ordered_json json;
  json["schema"] = "dsanalyze.plan/1";
  json["runs"] = plan.runs;
  json["seconds"] = plan.seconds;
  json["subset"] = {{"most_samples", plan.most_subset_samples}, {"most_bytes", plan.most_subset_bytes}};
  json["cache_bytes"] = plan.cache_bytes;
  json["cache_fraction"] = plan.cache_fraction;
  json["memory_bytes"] = plan.memory_bytes;
  json["lines"] = plan.lines;
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) json["findings"].push_back({{"code", finding.code}, {"severity", "warning"}, {"message", finding.message}});
  return json.dump(2) + "\n";
}

/// The models' first advice, with its evidence; none where the rates do not suffice, and none of several ranks: the models' is of one server alone.
std::vector<AdviceRecord> advise(const ProfileResult& result) {
  if (!result.prep || !result.storage || !result.cache || result.settings.world > 1) return {};
  WhatIfQuestion question;
  question.find = {"cache", "cores", "storage"};
  try {
    return answer(rate_model(result), question).advice;
  } catch (const std::exception&) {
    return {};  // rates that the models refuse are no reason to lose the measurement
  }
}

std::string command_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

/// Predictions need P, C and S; speeding accelerators up needs G too.
std::string next_command(const ProfileResult& result, const std::string& profile) {
  if (result.fix) return result.fix->check;
  if (!result.command.empty()) return fmt::format("dsanalyze report {} --format html -o report.html", shell_word(profile));
  if (!result.prep || !result.cache || !result.storage) return fmt::format("dsanalyze profile {}", shell_word(result.settings.dataset));
  return fmt::format("dsanalyze whatif {} --cache-size 25%,50%,100% --cores 2x{} --find cache", shell_word(profile),
                     result.ingestion ? " --accelerator-speed 2x" : "");
}

struct Saved {
  std::filesystem::path place;  ///< empty: not saved
  std::string text;             ///< where it lies and what to do next
};

/// A profile that cannot be saved is still told: the measurement took minutes.
/// A command behind "next:  ": on a narrow terminal in lines that a shell takes for one, with its words whole, so that they can be copied.
std::string in_shell_lines(const std::string& command, int width) {
  constexpr int usual = 80;
  constexpr std::size_t indent = 7;
  constexpr std::size_t narrowest = 20;
  if (width >= usual || command.find_first_of("'\"\\") != std::string::npos) return command;
  const std::size_t room = std::max(static_cast<std::size_t>(std::max(width, 0)), narrowest + indent) - indent;
  std::string text;
  std::size_t used = 0;
  for (std::size_t at = 0; at < command.size();) {
    const std::size_t end = std::min(command.find(' ', at), command.size());
    const std::size_t word = end - at;
    if (used > 0 && used + 1 + word + 2 > room) {
      text += " \\\n" + std::string(indent, ' ');
      used = 0;
    } else if (used > 0) {
      text += ' ';
      ++used;
    }
    text += command.substr(at, word);
    used += word;
    at = end + 1;
  }
  return text;
}

Saved save(const ProfileResult& result, const std::string& json, const CommandContext& context) {
  try {
    const std::filesystem::path place = context.options.output ? *context.options.output : new_profile_path(std::time(nullptr));
    if (!context.options.output) write_file_atomically(place, json);
    return {place, fmt::format("\nsaved: {}\nnext:  {}\n", printable(place.native()),
                               in_shell_lines(next_command(result, place.string()), context.style.width))};
  } catch (const Error& error) {
    context.events.finding({"profile-not-saved", Finding::Severity::warning, fmt::format("the profile is not saved: {}", error.what())});
    return {{}, fmt::format("\nnot saved: {}\n", printable_lines(error.what()))};
  }
}

/// The report of a profile that is told and saved whatever becomes of this; false when it could not be written.
bool write_report(const std::filesystem::path& html, const std::filesystem::path& profile, const ProfileResult& result,
                  const CommandContext& context) {
  const std::string label = profile.empty() ? "profile" : profile.filename().string();
  try {
    write_file_atomically(html,
                          html_report(std::array{report_input(label, profile.empty() ? "profile.json" : profile.string(), result)}, report_assets()));
    return true;
  } catch (const Error& error) {
    context.events.finding({"report-not-written", Finding::Severity::error,
                            fmt::format("the report is not written: {}. `dsanalyze report` makes it from the saved profile.", error.what())});
    return false;
  }
}

/// For a scraper. Like the profile itself, no reason to lose the measurement.
void write_metrics(const ProfileResult& result, const std::filesystem::path& file, EventSink& events) {
  if (file.empty()) return;
  try {
    write_file_atomically(file, open_metrics(result));
  } catch (const Error& error) {
    events.finding({"metrics-not-written", Finding::Severity::warning, fmt::format("the profile stands, its metrics are lost: {}", error.what())});
  }
}

/// Those that came to the end of the run.
AliveRanks ranks_of(const ProfileResult& result) {
  AliveRanks ranks(static_cast<std::uint32_t>(result.settings.world));
  for (std::uint32_t rank = 0; rank < ranks.ranks(); ++rank) {
    if (std::ranges::find(result.ranks, static_cast<int>(rank), &RankRecord::rank) == result.ranks.end()) ranks.lose(rank);
  }
  return ranks;
}

/// RankTeam::tells_result() of the ranks whose records the result has; names those that were lost since.
bool tells_result(RankTeam& team, ProfileResult& result, const RankTeam::Patience& patience) {
  const AliveRanks with_record = ranks_of(result);
  AliveRanks left = with_record;
  if (!team.tells_result(left, patience)) return false;
  for (std::uint32_t rank = 0; rank < left.ranks(); ++rank) {
    if (with_record.alive(rank) && !left.alive(rank))
      result.findings.push_back({"rank-lost-after-run", Finding::Severity::warning,
                                 fmt::format("rank {} was lost after the run: what it trained and measured is in this result.", rank)});
  }
  return true;
}

/// What a few samples hold, where their contents matter. Ranks compare it, so what they cannot read is an error there; of one rank the runs tell it.
std::optional<ContentSample> contents_of(const ProfileInputs& inputs, const std::stop_token& stop) {
  const ProfileSettings& settings = inputs.settings;
  if (settings.storage != Seam::real && settings.prep != Seam::real) return std::nullopt;
  try {
    auto contents = sample_contents(*inputs.index, settings.seed, stop);
    if (contents && contents->unreadable > 0 && settings.on_error == OnError::fail && runs_ranks(settings))
      throw Error(fmt::format("a sample of the dataset {} cannot be read: {}", printable(settings.dataset), contents->first_unreadable));
    return contents;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    if (runs_ranks(settings)) throw;
    return std::nullopt;
  }
}

/// What becomes of what the command writes.
std::string output_plan(const LaunchSettings& settings) {
  if (settings.keep_output) return "what the command writes stays (--keep-output)";
  if (settings.sandbox->refusal.empty()) return "what the command writes lands in a sandbox and is discarded; your files stay as they are";
  return fmt::format(
      "no sandbox ({}): only the phases full and prep, on the command's own data, and what it writes stays. "
      "--keep-output measures all phases",
      settings.sandbox->refusal);
}

std::string launch_plan(const LaunchSettings& settings) {
  const std::string command = command_line(settings.command);
  if (settings.mode == AttachMode::passive) return fmt::format("plan: start {}, and read its clocks until it ends\n", command);
  return fmt::format("plan: start {}, measure it for about {}, then end it\nplan: {}\n", command, format_seconds(settings.plan.seconds),
                     output_plan(settings)) +
         fmt::format("plan: then read what it read again, cold and from memory, for about {}: of these files, the page cache keeps no more than {}\n",
                     format_seconds(settings.storage_seconds), format_bytes(most_warm_bytes)) +
         fmt::format("plan: then, where these are image files that dsanalyze.Loader could load, prepare some of them for {}\n",
                     format_seconds(own_prep_seconds(settings.plan.seconds + settings.storage_seconds)));
}

/// P is measured at 1, 2, 4, ... workers as far as there are cores, and at twice as many where these are few: workers that share a core can supply
/// less together than one that has it.
void plan_launch(LaunchSettings& settings, const HostFacts& host) {
  constexpr int most_sharing = 16;
  const int most = std::max(host.worker_count(), std::min(2 * host.worker_count(), most_sharing));
  for (int workers = 1; workers <= most; workers *= 2) settings.plan.worker_counts.push_back(workers);
  settings.plan.kept_bytes = std::min(settings.plan.kept_bytes, host.memory_usable / 16);
  settings.plan.device_use = gpu_use();
}

/// What a shell would have of the command.
int exit_code_of(const LaunchedTraining& launched) {
  constexpr int signalled = 128;
  return launched.signal ? signalled + *launched.signal : launched.exit_status.value_or(0);
}

/// G, by the user's own PyTorch.
void measure_accelerator(ProfileInputs& inputs, const CommandContext& context) {
  constexpr double share = 0.1;  // of the time budget
  constexpr double least_seconds = 2;
  ProfileSettings& settings = inputs.settings;
  const PrivateFolder folder;
  PyTorchQuestion question;
  question.script = pytorch_rate_script();
  question.folder = folder.path();
  question.network = inputs.network;
  question.device = settings.accelerator_name.starts_with(pytorch_prefix) ? settings.accelerator_name.substr(pytorch_prefix.size()) : "";
  question.batch_size = settings.batch_size;
  question.crop_size = inputs.image_prep.crop_size;
  question.seconds = std::max(settings.time_budget_seconds * share, least_seconds);
  context.events.note(fmt::format("plan: first measure what PyTorch trains of {}, in a process of its own", inputs.network));
  inputs.measured_accelerator = measure_pytorch_rate(question, context.stop, system_timing());
  settings.accelerator_rate = inputs.measured_accelerator->rate.estimate.value;
}

class ProfileCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const TypedOptions& typed = context.typed;
    const AttachOptions attach_options(typed);
    attach_options.check();
    if (!typed.words().empty()) return launch_command(attach_options, context);
    const ProfileOptions options(typed);
    RankOptions rank_options(typed);
    std::vector<OutputFile> outputs = options.outputs();
    outputs.push_back({"-o", context.options.output.value_or("")});
    std::vector<std::filesystem::path> files = options.inputs();
    std::ranges::copy(rank_options.inputs(), std::back_inserter(files));
    check_outputs(outputs, files);
    const double slow_prep = slow_prep_share();
    ProfileInputs inputs = options.resolve(context.options.seed, context.events, context.stop);
    if (slow_prep > 0 && inputs.settings.prep != Seam::real)
      throw UsageError(
          fmt::format("{} burns CPU time of real prep, and --prep is not real here: unset it, or ask for another emulated rate", slow_prep_variable));
    rank_options.apply(inputs.settings);
    if (inputs.settings.accelerator == AcceleratorKind::cuda) open_gpus(inputs);
    const ProfileSettings asked = inputs.settings;
    const ProfilePlan plan = plan_profile(inputs);
    const std::vector<Finding> warnings = doctor_before_profile(inputs, asked);
    if (typed.given("--dry-run")) return {plan_json(plan, warnings), plan_text(plan, warnings)};
    inputs.contents = contents_of(inputs, context.stop);
    if (inputs.settings.accelerator == AcceleratorKind::pytorch) measure_accelerator(inputs, context);
    m_rank = rank_options.launch(inputs, context.stop, system_timing());
    if (m_rank) inputs.team = &m_rank->team();
    // Of several ranks the first one speaks.
    EventSink& events = rank_options.rank() == 0 ? context.events : null_events();
    for (const Finding& warning : warnings) events.finding(warning);
    for (const std::string& line : plan.lines) events.note("plan: " + line);

    ProfileResult result = run_profile(inputs, plan, events, context.stop, system_timing());
    if (context.stop.stop_requested()) throw Interrupted();
    if (m_rank && static_cast<int>(result.ranks.size()) == inputs.settings.world) m_rank->finish();
    const RankTeam::Patience patience{seconds_for_ranks(inputs.settings), context.stop, system_timing()};
    if (m_rank && !tells_result(m_rank->team(), result, patience)) return {};
    result.findings.insert(result.findings.begin(), warnings.begin(), warnings.end());
    result.advice = advise(result);

    Outcome outcome = outcome_of(result, context);
    if (m_rank) outcome.once_written = [this, patience] { m_rank->team().told_result(patience); };
    return outcome;
  }

 private:
  /// One for each device, in turn of those that there are.
  void open_gpus(ProfileInputs& inputs) {
    const ProfileSettings& settings = inputs.settings;
    m_gpus = open_cuda_driver(gpu_kernels());
    const std::size_t count = m_gpus->gpus().size();
    const std::size_t devices = settings.mesh.empty() ? static_cast<std::size_t>(settings.accelerators) : parse_mesh(settings.mesh).devices();
    for (std::size_t device = 0; device < devices; ++device)
      inputs.gpus.push_back(device < count ? m_gpus->open(device) : inputs.gpus[device - count]);
    if (settings.mesh.empty() && settings.accelerators == 1) inputs.gpu = inputs.gpus.front();
  }

  /// Saves the profile, and what else was asked for.
  static Outcome outcome_of(const ProfileResult& result, const CommandContext& context, WriteOrder order = WriteOrder::files_first) {
    const TypedOptions& typed = context.typed;
    Outcome outcome;
    outcome.order = order;
    write_metrics(result, typed.text("--metrics"), context.events);
    outcome.json = to_json(result);
    const Saved saved = save(result, outcome.json, context);
    outcome.text = console_summary(result, context.style);
    (outcome.order == WriteOrder::result_first ? outcome.text_once_written : outcome.text) += saved.text;
    if (const std::string& html = typed.text("--html"); !html.empty()) {
      if (write_report(html, saved.place, result, context))
        outcome.text += fmt::format("report: {}\n", html);
      else
        outcome.exit_code = exit_failed;
    }
    if (context.typed.given("--require-trusted") && !result.trusted) outcome.exit_code = exit_undecided;
    return outcome;
  }

  /// The user's own training, launched.
  static Outcome launch_command(const AttachOptions& options, const CommandContext& context) {
    LaunchSettings settings = options.settings();
    std::vector<OutputFile> outputs = ProfileOptions(context.typed).outputs();
    outputs.push_back({"-o", context.options.output.value_or("")});
    check_outputs(outputs, {});
    if (settings.mode == AttachMode::passive) survive_failed_writes();
    if (settings.mode == AttachMode::phases) {
      settings.storage_seconds = storage_seconds(settings.plan.seconds);
      settings.plan.seconds -= settings.storage_seconds;
    }
    const std::string plan = launch_plan(settings);
    if (context.typed.given("--dry-run")) return {"", plan};
    context.events.note(plan.substr(0, plan.size() - 1));
    const HostFacts host = read_host_facts();
    plan_launch(settings, host);
    settings.hook = hook_directory();
    if (settings.mode == AttachMode::phases) settings.tracer = tracer_library();
    settings.output = context.options.json ? SpawnWay::Output::to_stderr : SpawnWay::Output::own;
    settings.working_directory = std::filesystem::current_path().native();
    settings.paths = command_paths(settings.command, settings.working_directory);
    const PrivateFolder folder;
    settings.folder = folder.path();
    const auto started = std::chrono::system_clock::now();
    if (settings.mode == AttachMode::phases)
      return phases_outcome(launch_training(settings, context.events, context.stop, system_timing()), settings, host, started, context);
    // A real training: whatever becomes of its profile, the command's own end is what its caller needs to know.
    const LaunchedTraining launched = launch_training(settings, context.events, context.stop, system_timing());
    Outcome outcome;
    try {
      outcome = launched_outcome(launched, settings, host, started, context);
    } catch (const std::exception& error) {
      context.events.finding({"not-profiled", Finding::Severity::error, fmt::format("the command was not profiled: {}", error.what())});
      if (context.options.json) outcome.json = error_json(ErrorKind::failed, error.what(), exit_code_of(launched));
    }
    outcome.exit_code = exit_code_of(launched);
    outcome.exit_code_stays = true;
    outcome.order = WriteOrder::result_first;
    return outcome;
  }

  /// A training that failed has failed, whatever was measured before.
  static Outcome phases_outcome(const LaunchedTraining& launched, const LaunchSettings& settings, const HostFacts& host,
                                std::chrono::system_clock::time_point started, const CommandContext& context) {
    Outcome outcome = launched_outcome(launched, settings, host, started, context);
    if (launched.failure.empty()) return outcome;
    context.events.finding({"training-failed", Finding::Severity::error, launched.failure});
    outcome.exit_code = exit_failed;
    return outcome;
  }

  /// The storage and dsanalyze's own prep, by what the training has read.
  static void measure_alone(const LaunchedTraining& launched, const LaunchSettings& settings, const HostFacts& host, ProfileResult& result,
                            const CommandContext& context) {
    measure_training_storage(launched, settings.storage_seconds, host, result, context.events, context.stop, system_timing());
    const double seconds = own_prep_seconds(settings.plan.seconds + settings.storage_seconds);
    measure_own_prep(launched, seconds, host, result, context.events, context.stop, system_timing());
  }

  static Outcome launched_outcome(const LaunchedTraining& launched, const LaunchSettings& settings, const HostFacts& host,
                                  std::chrono::system_clock::time_point started, const CommandContext& context) {
    ProfileResult result = attached_profile(launched, settings, host);
    if (settings.mode == AttachMode::phases && launched.failure.empty()) measure_alone(launched, settings, host, result, context);
    if (const std::string& file = context.typed.text("--trace"); !file.empty()) write_item_trace(launched, file, result);
    result.started_utc = utc_text(started);
    if (settings.mode == AttachMode::phases) advise_training(result, context.options.output ? context.options.output->native() : "");
    return outcome_of(result, context, WriteOrder::result_first);
  }

  std::unique_ptr<LaunchedRank> m_rank;  ///< until the result is written
  std::unique_ptr<GpuDriver> m_gpus;     ///< with real accelerators
};

}  // namespace

std::unique_ptr<Command> make_profile_command() { return std::make_unique<ProfileCommand>(); }

}  // namespace dsanalyze::cli
