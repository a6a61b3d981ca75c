#include "attached_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attach/command_paths.hpp"
#include "attach/kept_batches.hpp"
#include "attached_parts.hpp"
#include "attached_reads.hpp"
#include "attached_runs.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/units.hpp"
#include "profile/verdict.hpp"

namespace dsanalyze {
namespace {

/// A loss below this is not worth naming a bottleneck for.
constexpr double least_loss = 0.02;
/// Below this, all losses together are none.
constexpr double worth_a_name = 0.05;
/// Of a step without workers: a share of preparing that is worth workers.
constexpr double least_turn = 0.1;

/// G: its interval holds what the steps vary by, and that its batches are a sample of those of an epoch.
/// On a device it is that of whole windows alone, as what the process takes for each batch is not what the device does.
RateRecord ingestion_rate(const PhaseMeasurement& synthetic, bool on_device) {
  RateRecord rate = rate_record(stretches_of(synthetic), "the training's own steps with batches handed out again");
  double half_width = 0;
  const std::uint64_t kept = synthetic.kept_batches;
  for (const auto& [rank, windows] : synthetic.by_rank)
    if (kept > 1 && !on_device) half_width = std::max(half_width, rate.samples_per_s * kept_batches_error(windows, kept) * student_t95(kept - 1));
  Interval& interval = rate.ci95_samples_per_s;
  interval.low = std::max(rate.samples_per_s - std::hypot(rate.samples_per_s - interval.low, half_width), 0.0);
  interval.high = rate.samples_per_s + std::hypot(interval.high - rate.samples_per_s, half_width);
  return rate;
}

/// G where no batches were handed out again: the steps as found, without their waiting for data.
RateRecord rate_without_waiting(const PhaseMeasurement& full) {
  PhaseMeasurement busy = full;
  for (auto& [rank, windows] : busy.by_rank)
    for (StepWindow& window : windows) window.end -= to_nanoseconds(std::accumulate(window.wait.begin(), window.wait.end(), 0.0));
  return rate_record(stretches_of(busy), "the training's steps as found, without their waiting for data");
}

/// What lies between epochs is time of the training, too, where all of its steps were measured.
void take_gaps(const PhaseMeasurement& phase, RunRecord& run) {
  if (!phase.whole_run) return;
  double gaps = 0;
  for (const auto& [rank, list] : phase.gaps) {
    double of_rank = 0;
    for (const EpochGap& gap : list) of_rank += to_seconds(gap.end - gap.begin);
    gaps = std::max(gaps, of_rank);
  }
  if (gaps <= 0 || run.seconds <= 0) return;
  const double slower = run.seconds / (run.seconds + gaps);
  run.samples_per_s *= slower;
  run.ci95_samples_per_s.low *= slower;
  run.ci95_samples_per_s.high *= slower;
  run.seconds += gaps;
}

/// What all ranks together train in an epoch: its steps by the samples of one. A sampler may draw more or fewer than the dataset has.
double epoch_samples(const AttachedTraining& training) {
  const auto full = training.phases.find(AttachPhase::full);
  if (!training.loader) return 0;
  const auto known = static_cast<double>(training.loader->samples.value_or(0));
  if (full == training.phases.end() || !training.loader->batches) return known;
  double step = 0;
  for (const auto& [rank, windows] : full->second.by_rank) {
    double samples = 0;
    double steps = 0;
    for (const StepWindow& window : windows) {
      samples += std::accumulate(window.samples.begin(), window.samples.end(), 0.0);
      steps += static_cast<double>(window.samples.size());
    }
    if (steps > 0) step += samples / steps;
  }
  return step > 0 ? step * static_cast<double>(*training.loader->batches) : known;
}

/// What a rank's steps took, in all phases or in one.
std::optional<StepSamplesRecord> samples_per_step(const AttachedTraining& training, std::optional<AttachPhase> one = {}) {
  constexpr double outlying = 0.05;
  std::vector<double> samples;
  for (const auto& [phase, measured] : training.phases)
    for (const auto& [rank, windows] : measured.by_rank)
      for (const StepWindow& window : windows)
        if (!one || phase == *one) samples.insert(samples.end(), window.samples.begin(), window.samples.end());
  if (samples.empty()) return std::nullopt;
  std::ranges::sort(samples);
  const auto spare = static_cast<std::size_t>(outlying * static_cast<double>(samples.size()));
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return StepSamplesRecord{samples[spare], sum / static_cast<double>(samples.size()), samples[samples.size() - 1 - spare]};
}

/// Rates of phases that took batches of other sizes are of other steps.
void find_changed_batches(const AttachedTraining& training, ProfileResult& result) {
  constexpr double clearly = 0.1;
  const auto full = samples_per_step(training, AttachPhase::full);
  const auto synthetic = samples_per_step(training, AttachPhase::synthetic);
  if (!full || !synthetic || std::abs(synthetic->mean - full->mean) <= clearly * full->mean) return;
  result.findings.push_back({"batch-changed", Finding::Severity::warning,
                             fmt::format("a step took {} samples on the average in the phase full, and {} in the phase synthetic: the script changes "
                                         "its batch size as it trains, so G is that of other steps than were found.",
                                         format_number(full->mean), format_number(synthetic->mean))});
}

/// Nothing where the phase was not measured.
std::optional<RunRecord> run_of(const AttachedTraining& training, AttachPhase phase) {
  const auto found = training.phases.find(phase);
  if (found == training.phases.end()) return std::nullopt;
  const std::vector<Stretch> stretches = stretches_of(found->second);
  if (stretches.empty()) return std::nullopt;
  RunRecord run;
  run.name = enum_name(phase);
  take_rate(rate_record(stretches, ""), run);
  take_use(found->second.before, found->second.after, run);
  if (const std::vector<double>& use = found->second.device_use; !use.empty()) run.device_use_fraction = median(use);
  for (const auto& [rank, windows] : found->second.by_rank) {
    double seconds = 0;
    for (const StepWindow& window : windows) {
      seconds += step_seconds(window);
      run.samples += static_cast<std::uint64_t>(std::accumulate(window.samples.begin(), window.samples.end(), 0.0));
    }
    run.seconds = std::max(run.seconds, seconds);
  }
  take_gaps(found->second, run);
  const std::vector<double> waits = training.fetched_in_thread() ? std::vector<double>{} : data_waits(found->second.by_rank);
  run.stall_p50_seconds = quantile(waits, 0.5);
  run.stall_p99_seconds = quantile(waits, 0.99);
  if (training.loader) {
    run.prefetch_batches = training.loader->workers * training.loader->prefetch.value_or(0);
    if (run.samples_per_s > 0) run.epoch_seconds = epoch_samples(training) / run.samples_per_s;
  }
  return run;
}

/// The kernel's count of what a process read from storage is believed once it was seen to count.
void grade_storage_proof(const LaunchedTraining& launched, ProfileResult& result) {
  for (RunRecord& run : result.runs) {
    if (run.name != "prep" && run.name != "cached") continue;
    if (!run.storage_bytes)
      run.storage_proof = StorageProof::unproved;
    else
      run.storage_proof = launched.use.storage_bytes.value_or(0) > 0 ? StorageProof::proved : StorageProof::corroborated;
  }
}

/// Of the cores that the workers could use while the loader was drained, the share that the processes used; nothing where that is not known.
std::optional<double> busy_workers(const AttachedTraining& training, const ProfileResult& result) {
  const auto drain = std::ranges::find(training.drains, training.loader->workers, &DrainMeasurement::workers);
  if (drain == training.drains.end() || !drain->before || !drain->after) return std::nullopt;
  const double seconds = to_seconds(drain->after->at - drain->before->at);
  const auto point = std::ranges::find(result.prep_by_workers, training.loader->workers, &WorkerPoint::workers);
  const bool known = point != result.prep_by_workers.end() && training.loader->workers > 0 && point->workers_seconds_per_sample;
  // Of the workers alone where that was measured: other threads of the training may compute on.
  const double used =
      known ? *point->workers_seconds_per_sample * point->samples_per_s * seconds : drain->after->cpu_seconds - drain->before->cpu_seconds;
  const double workers = std::max(training.loader->workers, 1) * static_cast<double>(std::max<std::size_t>(drain->by_rank.size(), 1));
  if (seconds <= 0 || used <= 0) return std::nullopt;
  const double could = std::min(workers, std::max(result.launch->cores.value_or(result.host.cores), 1.0));
  return used / seconds < could ? used / seconds / could : 1;
}

BottleneckRecord prep_bottleneck(const AttachedTraining& training, const ProfileResult& result, bool apart) {
  constexpr double hardly_busy = 0.3;
  constexpr double mostly = 0.5;
  BottleneckRecord record{"cpu", "prep", apart, "", "gpu"};
  if (read_storage(*result.run("prep"), mostly)) {
    // Its data did not stay in memory even while prep was measured.
    record = {"io", "storage", false, "", "cpu"};
    record.reason = "prep was measured while its data came from storage, so the two cannot be told apart";
    return record;
  }
  if (const auto busy = busy_workers(training, result); busy && *busy < hardly_busy) {
    record = {"io", "latency", apart, "", "gpu"};
    record.reason = fmt::format("while the loader was drained its workers used {:.0f} % of their cores; ", 100 * *busy);
  }
  return record;
}

/// Where P is enough. What a step spends beside its computing is told before that computing.
BottleneckRecord beyond_prep(const ProfileResult& result, bool apart) {
  BottleneckRecord record{"gpu", "accelerator", apart, "", "cpu"};
  if (!result.waits) return record;
  const double data = result.waits->data.fraction;
  const double compute = result.waits->compute.fraction;
  const double outside = result.waits->outside.fraction;
  constexpr double clearly = 1.2;
  if (data > std::max(compute, outside)) return {"cpu", "delivery", apart && data > clearly * std::max(compute, outside), "", "gpu"};
  if (outside > compute) return {"gpu", "outside", apart && outside > clearly * compute, "", "gpu"};
  return record;
}

/// Where nothing came from storage, the training as found is the one with its data in memory: what it loses beside, as workers start, is no fetching.
std::optional<ProfileResult::Stalls> attached_stalls(const AttachedTraining& training, const ProfileResult& result) {
  const RunRecord* const full = result.run("full");
  const RunRecord* const cached = result.run("cached");
  const RunRecord* const busy = result.run("busy");
  if (!result.ingestion || full == nullptr) return std::nullopt;
  const bool in_memory = full->storage_bytes && !read_storage(*full, least_loss);
  if (cached == nullptr && !(in_memory && training.stream_goes_on())) return std::nullopt;
  const RateRecord found = rate_of(*full);
  const RateRecord from_memory = in_memory ? found : rate_of(*cached);
  std::vector<RateRecord> runs{*result.ingestion, from_memory, found};
  if (busy != nullptr) runs.insert(runs.begin() + 1, rate_of(*busy));
  const std::vector<StallRecord> stalls = stalls_of(runs, epoch_samples(training));
  if (busy == nullptr) return ProfileResult::Stalls{stalls[0], stalls[1], stalls[2]};
  return ProfileResult::Stalls{stalls[0], stalls[2], stalls[3], stalls[1]};
}

/// Whether prep and training take turns, so that their times add up. What is watched may prepare ahead in threads of its own: then a step waits for
/// the rest of a batch's time alone.
bool takes_turns(const AttachedTraining& training, const ProfileResult& result) {
  if (!result.loader || result.loader->workers > 0 || training.fetched_in_thread()) return false;
  if (result.loader->style != LoaderRecord::Style::watched) return true;
  const RunRecord* const full = result.run("full");
  if (full == nullptr || !result.waits || !(result.waits->step_seconds > 0) || !(result.prep->samples_per_s > 0)) return false;
  const double waited = result.waits->data.seconds_per_step / (result.waits->step_seconds * full->samples_per_s);
  const double prepared = 1 / result.prep->samples_per_s;
  const double rest = std::max(prepared - 1 / result.ingestion->samples_per_s, 0.0);
  return waited > (prepared + rest) / 2;
}

struct Loss {
  BottleneckRecord record;
  const StallRecord* stall = nullptr;
};

/// Steps that take longer beside workers lack cores, where all are in use; else the process has to take their batches over.
BottleneckRecord contention_bottleneck(const ProfileResult& result) {
  constexpr double nearly_all = 0.9;  // of the cores; the rest is lost where processes take turns
  const double cores = result.launch->cores.value_or(result.host.cores);
  const RunRecord& busy = *result.run("busy");
  const double others = busy.others ? busy.others->cpu_fraction * result.host.cores : 0;
  const bool has_cores = busy.cores_used.value_or(cores) + others < nearly_all * cores;
  return {"cpu", has_cores ? "delivery" : "cores", true, "", "cpu"};
}

/// By what the training as found loses of its time against steps on batches at hand: the largest loss where all together are worth naming.
BottleneckRecord loss_bottleneck(const AttachedTraining& training, const ProfileResult& result) {
  const ProfileResult::Stalls& stalls = *result.stalls;
  // Without workers, preparing is a loss by itself: one that takes longer than computing, or that workers were measured to take away.
  const bool in_turn = takes_turns(training, result);
  const bool workers_help = result.prep_by_workers.size() > 1 ? result.better_workers().has_value() : stalls.prep.fraction > least_turn;
  const double turn = result.run("full")->samples_per_s / result.prep->samples_per_s;
  const bool is_turn_lost =
      (turn > worth_a_name && workers_help) || stalls.prep.fraction > stalls.compute.fraction || stalls.fetch.fraction > worth_a_name;
  const bool is_lost = stalls.compute.fraction < 1 - worth_a_name && (!in_turn || is_turn_lost);
  std::vector<Loss> losses{{prep_bottleneck(training, result, true), &stalls.prep}};
  // A loader that is faster than the steps, and is waited for all the same.
  if (!in_turn && result.prep->samples_per_s >= result.ingestion->samples_per_s) losses.front().record = {"cpu", "delivery", true, "", "gpu"};
  if (stalls.contention) losses.push_back({contention_bottleneck(result), &*stalls.contention});
  if (read_storage(*result.run("full"), least_loss)) losses.push_back({{"io", "storage", true, "", "cpu"}, &stalls.fetch});
  std::ranges::sort(losses, [](const Loss& one, const Loss& other) { return one.stall->fraction > other.stall->fraction; });
  BottleneckRecord record = is_lost ? losses.front().record : beyond_prep(result, true);
  const bool apart = losses.size() < 2 || losses[0].stall->ci95_fraction.low > losses[1].stall->fraction;
  const bool surely_lost = stalls.compute.ci95_fraction.high < 1 - worth_a_name;
  const bool surely_not = stalls.compute.ci95_fraction.low > 1 - worth_a_name;
  record.confident = record.confident && (is_lost ? apart && surely_lost : surely_not || in_turn);
  record.reason += fmt::format("of the time, {} is compute", format_share(stalls.compute.fraction));
  if (stalls.contention) record.reason += fmt::format(", {} contention", format_share(stalls.contention->fraction));
  record.reason += fmt::format(", {} waiting for prep, {} for storage{}", format_share(stalls.prep.fraction), format_share(stalls.fetch.fraction),
                               record.confident ? "" : "; their 95 % intervals do not say which is largest: inconclusive");
  return record;
}

/// Where no rates say what is lost, prep against the accelerators.
BottleneckRecord rate_bottleneck(const AttachedTraining& training, const ProfileResult& result) {
  const RateRecord& demand = *result.ingestion;
  const RateRecord& prep = *result.prep;
  const bool in_turn = takes_turns(training, result);
  const bool waits = result.waits && result.waits->data.fraction > least_turn;
  const bool apart = in_turn || !known_interval(demand).overlaps(known_interval(prep));
  const bool prep_lower = in_turn ? waits : prep.samples_per_s < demand.samples_per_s;
  BottleneckRecord record = prep_lower ? prep_bottleneck(training, result, apart) : beyond_prep(result, apart && result.waits);
  if (record.detail != "storage")
    record.reason += fmt::format("{} [P] against {} [G] samples/s; {}", format_number(prep.samples_per_s), format_number(demand.samples_per_s),
                                 in_turn                        ? "without workers, prep and training take turns"
                                 : !apart                       ? "their 95 % intervals overlap: inconclusive"
                                 : !prep_lower && !result.waits ? "what else steps wait for is not seen: inconclusive"
                                                                : "their 95 % intervals do not overlap");
  return record;
}

/// Of what happens once an epoch.
double fraction_of_epoch(const WaitsRecord& waits, double seconds) {
  const BetweenEpochsRecord& between = *waits.between_epochs;
  return between.steps ? seconds / (waits.step_seconds * static_cast<double>(*between.steps) + between.seconds) : 0;
}

/// What choosing samples takes of the training's time, in steps or between epochs, whichever is more.
double sampler_fraction(const WaitsRecord& waits) {
  const double in_steps = waits.sampler ? waits.sampler->fraction : 0;
  return std::max(in_steps, waits.between_epochs ? fraction_of_epoch(waits, waits.between_epochs->sampler_seconds.value_or(0)) : 0);
}

/// It is a part of what the rates lose, or lies between the epochs, of which they know nothing.
bool is_sampler(const ProfileResult& result) {
  if (!result.waits) return false;
  const double lost = result.stalls ? 1 - result.stalls->compute.fraction : 0;
  return sampler_fraction(*result.waits) > std::max(worth_a_name, lost / 2);
}

/// What workers that start once an epoch take of the training's time; 0 where that is less than half of all that it loses. The process waits for
/// them before its first batch, and with it, where that takes longer than preparing it.
double starting_fraction(const ProfileResult& result) {
  if (!result.waits || !result.waits->between_epochs || result.loader->workers == 0 || !(result.prep->samples_per_s > 0)) return 0;
  const BetweenEpochsRecord& between = *result.waits->between_epochs;
  const double prepared = result.loader->workers * result.waits->step_seconds * result.run("full")->samples_per_s / result.prep->samples_per_s;
  const double fraction = fraction_of_epoch(*result.waits, between.data_seconds + std::max(between.first_batch_seconds - prepared, 0.0));
  const double computed = (1 - fraction_of_epoch(*result.waits, between.seconds)) * (result.stalls ? result.stalls->compute.fraction : 1);
  return fraction > std::max(worth_a_name, (1 - computed) / 2) ? fraction : 0;
}

/// Whether a GPU rests though batches are at hand: it waits for the process that launches its work.
bool is_launch_bound(const ProfileResult& result) {
  constexpr double hardly_rests = 0.9;
  const RunRecord* const synthetic = result.run("synthetic");
  return synthetic != nullptr && synthetic->device_use_fraction && *synthetic->device_use_fraction < hardly_rests;
}

std::string launching_reason(const ProfileResult& result) {
  return fmt::format("with batches at hand the GPU computes {} of the time", format_share(*result.run("synthetic")->device_use_fraction));
}

std::optional<BottleneckRecord> bottleneck_of(const AttachedTraining& training, const ProfileResult& result) {
  BottleneckRecord record{"cpu", "sampler", true, "", "gpu"};
  if (is_sampler(result)) {
    record.reason = fmt::format("choosing samples takes {} of the training's time", format_share(sampler_fraction(*result.waits)));
  } else if (!result.ingestion || !result.prep) {
    return std::nullopt;
  } else if (const double starting = starting_fraction(result); starting > 0) {
    record.detail = "starting";
    record.reason = fmt::format("workers that start once an epoch take {} of the training's time", format_share(starting));
  } else {
    record = result.stalls ? loss_bottleneck(training, result) : rate_bottleneck(training, result);
  }
  if (record.detail == "accelerator" && is_launch_bound(result)) record = {"cpu", "launching", record.confident, launching_reason(result), "gpu"};
  if (result.finds(beside_others_code)) {
    record.confident = false;
    record.reason += "; inconclusive, as other programs took more of the cores in one run than in the other: see the findings";
  } else if (!result.trusted && record.confident) {
    record.confident = false;
    record.reason += "; see the findings";
  }
  return record;
}

}  // namespace

ProfileResult attached_profile(const LaunchedTraining& launched, const LaunchSettings& settings, const HostFacts& host) {
  const AttachedTraining& training = launched.training;
  if (training.ranks.empty() || !training.loader)
    throw Error(!launched.failure.empty() ? launched.failure
                                          : unrecognised_text(training.seen ? "seen: " + text_of(*training.seen) : "no batch was seen"));
  ProfileResult result;
  result.tool = this_tool();
  result.trusted = true;
  result.command = settings.command;
  result.loader = training.loader;
  result.loader->samples_per_step = samples_per_step(training);
  result.loader->tokens_per_sample = training.tokens_per_sample;
  result.launch = LaunchRecord{settings.working_directory, settings.paths, launched.first_step_seconds};
  if (auto maker = path_record(std::filesystem::path(settings.working_directory) / training.loader->file, CommandPathRecord::Kind::code); maker) {
    const auto known = std::ranges::find(result.launch->paths, maker->path, &CommandPathRecord::path);
    if (known == result.launch->paths.end())
      result.launch->paths.push_back(std::move(*maker));
    else
      known->kind = CommandPathRecord::Kind::code;  // a script whose name does not say so
  }
  result.host = host_record(host, training);
  result.launch->cores = chosen_cores(training, result.host.cores);
  result.settings.batch_size = training.loader->batch_size.value_or(0);
  result.settings.accelerators = rank_count(training);
  result.settings.workers = training.loader->workers;
  result.settings.time_budget_seconds = settings.plan.seconds + settings.storage_seconds;
  result.dataset.path = training.loader->dataset_class;
  result.dataset.format = "the training's own";
  result.dataset.samples = training.loader->samples.value_or(0);

  if (auto full = run_of(training, AttachPhase::full)) {
    if (!training.fetched_in_thread()) result.waits = waits_of(training.phases.at(AttachPhase::full));
    if (result.waits) take_cpus(training, *result.waits);
    if (settings.plan.phases == Conductor::Phases::full_and_prep && result.waits)
      result.ingestion = rate_without_waiting(training.phases.at(AttachPhase::full));
    result.runs.push_back(std::move(*full));
  }
  if (auto synthetic = run_of(training, AttachPhase::synthetic)) {
    result.ingestion = ingestion_rate(training.phases.at(AttachPhase::synthetic), training.device.cuda);
    take_rate(*result.ingestion, *synthetic);
    result.runs.push_back(std::move(*synthetic));
  }
  take_drains(training, result);
  if (result.waits) take_supplies(training, *result.waits);
  if (auto busy = run_of(training, AttachPhase::busy)) result.runs.push_back(std::move(*busy));
  if (auto cached = run_of(training, AttachPhase::cached)) result.runs.push_back(std::move(*cached));
  if (result.runs.empty())
    throw Error(
        fmt::format("the training ended after {} step{}, before anything was measured: the phases take about 100 steps together, in one epoch or "
                    "in several. Let it train longer (more epochs, more samples)",
                    training.steps, training.steps == 1 ? "" : "s"));
  grade_storage_proof(launched, result);
  take_others(launched, host, result);
  find_attached_problems(launched, settings, result);
  find_changed_batches(training, result);
  take_reads(launched, result);
  take_hot_stages(training, result);
  take_script_costs(training, result);

  result.stalls = attached_stalls(training, result);
  if (training.device.cuda && result.ingestion && result.waits && result.run("full") != nullptr) {
    leave_out_hidden(std::max(1 - result.run("full")->samples_per_s / result.ingestion->samples_per_s, 0.0), *result.waits);
  }
  result.bottleneck = bottleneck_of(training, result);
  return result;
}

}  // namespace dsanalyze
