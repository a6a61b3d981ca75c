#include "training_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "advice_parts.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "core/records/rate_text.hpp"

namespace dsanalyze {
std::string place_text(const std::string& file, int line) {
  if (file.empty()) return "";
  const std::string name = printable(std::filesystem::path(file).filename().native());
  return line > 0 ? fmt::format("{}:{} ", name, line) : name + " ";
}

GainRecord gain_of(const TrainingModel& model, const TrainingRates& now, const TrainingRates& rates, bool at_most) {
  GainRecord gain;
  gain.samples_per_s = rates.samples_per_s;
  gain.ci95_samples_per_s = {std::max(rates.ci95.low, 0.0), rates.ci95.high};
  gain.speedup = rates.samples_per_s / now.samples_per_s;
  gain.at_most = at_most;
  gain.next = bottleneck_words(rates, model.shares_cores);
  return gain;
}

bool worthwhile(const TrainingModel& model, const GainRecord& gain) {
  return gain.speedup >= least_advised_gain && gain.ci95_samples_per_s.low > model.ci95_found.high;
}

std::string gain_text(const GainRecord& gain) {
  return fmt::format("{}{} samples/s ({:.2f}x), then the bottleneck is {}", gain.at_most ? "at most " : "",
                     format_rate(gain.samples_per_s, gain.ci95_samples_per_s), gain.speedup, gain.next);
}

void add_advice(std::vector<AdviceRecord>& list, std::string code, std::string text, const std::optional<GainRecord>& gain, const std::string& file,
                int line) {
  AdviceRecord advice{std::move(code), std::move(text), {}};
  advice.file = file;
  advice.line = line;
  advice.gain = gain;
  list.push_back(std::move(advice));
}

namespace {

/// Samples in files of their own.
void advise_shards(Bytes sample_bytes, std::vector<AdviceRecord>& list) {
  std::string text = fmt::format(
      "Pack the samples into shards: each is read from a file of its own of {} on the average, so storage opens and seeks "
      "for every sample. Shards (WebDataset, tar) are read in order, in large requests.",
      format_bytes(sample_bytes));
  add_advice(list, "small-files", std::move(text), std::nullopt);
}

/// The same order in each epoch finds nothing in a page cache that has no room for all: what comes next was evicted last.
void advise_order(const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  if (model.storage->order != OrderKind::sequential) return;
  const TrainingRates shuffled = rates_of(model, {.order = OrderKind::random});
  const GainRecord gain = gain_of(model, now, shuffled, false);
  // The same storage reads either way, so how well its rate is known does not matter: what is missed less is the gain.
  constexpr double clearly = 1.2;
  if (gain.speedup < clearly) return;
  add_advice(list, "order-against-cache",
             fmt::format("Read in random order (shuffle=True): in the order of the files, a page cache of {} finds {} of an epoch's {} again, and in "
                         "random order {}. With it: {}.",
                         format_bytes(model.storage->page_cache_bytes), format_share(1 - now.miss_fraction),
                         format_bytes(model.storage->dataset_bytes), format_share(1 - shuffled.miss_fraction), gain_text(gain)),
             gain);
}

void advise_storage(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  if (!model.storage || now.miss_fraction <= 0) return;
  const TrainingModel::Storage& storage = *model.storage;
  const GainRecord gain = gain_of(model, now, rates_of(model, {.cached = 1}), false);
  if (!worthwhile(model, gain)) return;
  add_advice(list, "keep-in-memory",
             fmt::format("Keep the data in memory: an epoch reads {}, and the page cache may use {}. With all of it in memory: {}. "
                         "dsanalyze whatif --find cache,storage says how much is enough.",
                         format_bytes(storage.dataset_bytes), format_bytes(storage.page_cache_bytes), gain_text(gain)),
             gain);
  constexpr double small_bytes = 1 << 20;
  const double bytes = profile.reads->bytes_per_sample;
  const bool is_small = has_files_of_its_own(files_per_sample(*profile.reads, *profile.loader)) && bytes < small_bytes;
  if (profile.bottleneck && profile.bottleneck->detail == "storage" && is_small) advise_shards(static_cast<Bytes>(bytes), list);
  advise_order(model, now, list);
}

const char* remedy_for(const StageRecord& stage) {
  if (stage.name == "default_collate")
    return "Give it less to copy: smaller samples, bytes (uint8) that the accelerator converts, or whole batches at once (the dataset's "
           "__getitems__).";
  return "Make it cheaper, do it once and store its result, or do it on the accelerator.";
}

void advise_stages(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  constexpr double least_fraction = 0.25;
  if (!model.worker_cpu) return;
  for (const StageRecord& stage : profile.hot) {
    if (stage.fraction < least_fraction || stage.name == "fetching") continue;
    const auto without = [&](double fraction) { return rates_of(with_less_cpu(model, fraction), {}); };
    TrainingRates rates = without(stage.fraction);
    if (stage.ci95_fraction) rates.ci95 = {without(stage.ci95_fraction->low).ci95.low, without(stage.ci95_fraction->high).ci95.high};
    std::optional<GainRecord> gain = gain_of(model, now, rates, true);
    std::string without_it = fmt::format("Without it: {}.", gain_text(*gain));
    if (!worthwhile(model, *gain)) {
      // What takes the CPU time is known beside other programs, too; what they leave of the cores changes too much for a rate.
      if (!model.crowded || gain->speedup < least_advised_gain) continue;
      gain.reset();
      without_it = "Beside the other programs on this machine, what it would give is not predicted.";
    }
    add_advice(
        list, "slow-transform",
        fmt::format("{} takes {:.0f} % of the workers' CPU time. {} {}", printable(stage.name), 100 * stage.fraction, remedy_for(stage), without_it),
        gain, stage.file, stage.line);
  }
}

/// Workers whose libraries compute in threads of their own (OpenCV, a BLAS): torch lets each worker have one.
void advise_threads(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  constexpr double several = 1.2;
  const auto point =
      std::ranges::find_if(profile.prep_by_workers, [](const WorkerPoint& each) { return each.workers > 0 && each.workers_seconds_per_sample; });
  if (point == profile.prep_by_workers.end() || model.workers == 0) return;
  const double each = *point->workers_seconds_per_sample * point->samples_per_s / point->workers / model.ranks;
  const double asked = each * model.workers * model.ranks;
  if (each < several || asked < several * model.cores || now.bottleneck != "cpu") return;
  add_advice(list, "threads-of-workers",
             fmt::format("Each worker computes on {:.1f} cores at once, and {} workers ask for {:.1f} of {} cores. Let each use one thread, in "
                         "worker_init_fn: cv2.setNumThreads(0), torch.set_num_threads(1), or OMP_NUM_THREADS=1 in the environment.",
                         each, model.workers * model.ranks, asked, format_number(model.cores)));
}

void advise_others(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  const RunRecord& full = *profile.run("full");
  if (!model.crowded || now.detail != "prep") return;
  std::string names;
  for (const BackgroundLoad::Process& process : full.others->processes)
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", printable(process.command), format_share(process.cpu_fraction));
  add_advice(list, "other-processes",
             fmt::format("Other programs take {} of the CPU{}, and the workers wait for cores: stop them, or keep them off these cores (taskset, a "
                         "cpuset).",
                         format_share(full.others->cpu_fraction), names.empty() ? "" : " (" + names + ")"));
}

void advise_persistent(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  const LoaderRecord& loader = *profile.loader;
  if (loader.workers == 0 || loader.persistent || !profile.waits->between_epochs || !profile.waits->between_epochs->steps) return;
  // Before its first sample a stream may fill a buffer, which takes as long in workers that are there already.
  if (loader.style != LoaderRecord::Style::map) return;
  const BetweenEpochsRecord& between = *profile.waits->between_epochs;
  const double epoch = static_cast<double>(*between.steps) * profile.waits->step_seconds + between.seconds;
  // The first batch is waited for all the same: all workers prepare theirs at a time.
  const double first = model.workers * model.step_samples / now.delivered;
  const double waited = between.data_seconds + between.first_batch_seconds;
  const auto faster = [&](double part) { return epoch / (epoch - std::clamp(waited - part * first, 0.0, waited)); };
  constexpr double least_part = 0.5;
  constexpr double most_part = 1.5;
  const double speedup = faster(1);
  if (speedup < least_advised_gain || faster(most_part) <= 1) return;
  const double rate = static_cast<double>(*between.steps) * model.step_samples / epoch;
  GainRecord gain{rate * speedup, {rate * faster(most_part), rate * faster(least_part)}, speedup, false, ""};
  gain.next = bottleneck_words(now, model.shares_cores);
  add_advice(list, "persistent-workers",
             fmt::format("{}persistent_workers=True{}: each epoch of {} waits {} for its workers to start. Without that it is {:.2f}x as fast.",
                         place_text(loader.file, loader.line), loader.made_anew ? ", and the loader made once, before the epochs" : "",
                         format_seconds(epoch), format_seconds(waited), speedup),
             gain, loader.file, loader.line);
}

/// Of the training's time, what lines of the script take that are told by themselves.
double told_fraction(const ProfileResult& profile, const std::vector<AdviceRecord>& list) {
  double told = 0;
  for (const ScriptCostRecord& cost : profile.script_costs) {
    const bool is_told = std::ranges::any_of(list, [&cost](const AdviceRecord& each) {
      return (each.code == "slow-checkpoint" || each.code == "validation-workers") && each.file == cost.file && each.line == cost.line;
    });
    if (is_told) told += cost.what == ScriptCostRecord::What::save ? cost.fraction : cost.fraction * cost.waited_fraction;
  }
  return told;
}

/// All ranks wait for the one that does the most between its steps.
void advise_outside(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  const WaitsRecord& waits = *profile.waits;
  double outside = waits.outside.seconds_per_step;
  std::string of_rank;
  for (const RankWaitsRecord& rank : waits.by_rank) {
    if (rank.outside.seconds_per_step <= outside) continue;
    outside = rank.outside.seconds_per_step;
    of_rank = fmt::format(" of rank {}", rank.rank);
  }
  outside -= told_fraction(profile, list) * waits.step_seconds;
  const double left = std::max(waits.step_seconds - outside, waits.compute.seconds_per_step);
  if (outside <= 0 || left <= 0) return;
  // What is left is a difference, so the error of the step weighs more in it. Prep has less time for a step then.
  const double steps = model.step_samples / left;
  const double error = (model.ci95_found.high - model.ci95_found.low) / 2 / model.found * waits.step_seconds / left;
  TrainingRates rates = now;
  const bool prep_binds = rates.delivered < steps;
  rates.samples_per_s = std::min(rates.delivered, steps);
  rates.ci95 = {std::min(rates.ci95_delivered.low, steps * (1 - std::min(error, 1.0))), std::min(rates.ci95_delivered.high, steps * (1 + error))};
  if (rates.bottleneck != "cpu" && rates.bottleneck != "io") {
    rates.bottleneck = prep_binds ? "cpu" : "gpu";
    rates.detail = prep_binds ? "prep" : waits.data.seconds_per_step > waits.compute.seconds_per_step ? "delivery" : "accelerator";
  }
  GainRecord gain = gain_of(model, now, rates, true);
  gain.speedup = rates.samples_per_s / model.found;
  if (!worthwhile(model, gain)) return;
  const bool validates = waits.validation.seconds_per_step > waits.outside.seconds_per_step / 2;
  add_advice(list, "outside-of-steps",
             fmt::format("{}{} takes {} of each step's {}. Do it more rarely, or in another thread. Without it: {}.",
                         validates ? "What lies between its steps, validation above all,"
                                   : "What the script does between its steps (logging, checkpoints, .item())",
                         of_rank, format_seconds(outside), format_seconds(waits.step_seconds), gain_text(gain)),
             gain);
}

/// Where the loader is fast enough on the average, and single batches come late: more of them ahead cover for these.
void advise_prefetch(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  constexpr double keeps_up = 1.1;
  constexpr double bursts = 4;
  constexpr int most_ahead = 64;
  const LoaderRecord& loader = *profile.loader;
  const WaitsRecord& waits = *profile.waits;
  if (model.workers == 0 || !loader.prefetch || *loader.prefetch >= most_ahead || now.delivered < keeps_up * model.ingestion) return;
  if (waits.data_p99_seconds < bursts * waits.data.seconds_per_step || waits.data.seconds_per_step <= 0) return;
  TrainingRates even = now;
  even.samples_per_s = even.ready;
  even.ci95 = even.ci95_ready;
  GainRecord gain = gain_of(model, now, even, true);
  gain.speedup = even.samples_per_s / model.found;
  if (!worthwhile(model, gain)) return;
  const double late = waits.data_p99_seconds / std::max(waits.step_seconds - waits.data.seconds_per_step, 1e-6);
  const int ahead = std::min(*loader.prefetch + static_cast<int>(std::ceil(std::min<double>(late, most_ahead) / model.workers)), most_ahead);
  add_advice(list, "prefetch-factor",
             fmt::format("{}prefetch_factor={} (now {}): the loader keeps up on the average, but single batches come late (the mean wait is {}, "
                         "p99 is {}), and more batches ahead cover for them. With it: {}.",
                         place_text(loader.file, loader.line), ahead, *loader.prefetch, format_seconds(waits.data.seconds_per_step),
                         format_seconds(waits.data_p99_seconds), gain_text(gain)),
             gain, loader.file, loader.line);
}

void advise_pinning(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  const LoaderRecord& loader = *profile.loader;
  if (model.shares_cores || loader.pin_memory || now.bottleneck != "gpu") return;
  add_advice(list, "pin-memory",
             fmt::format("{}pin_memory=True, with .to(device, non_blocking=True): the copy to the GPU then overlaps with computing. What it "
                         "gains is not predicted.",
                         place_text(loader.file, loader.line)),
             {}, loader.file, loader.line);
}

}  // namespace

std::vector<AdviceRecord> advise(const ProfileResult& profile, const TrainingModel& model) {
  const TrainingRates now = rates_of(model, {});
  std::vector<AdviceRecord> list;
  advise_storage(profile, model, now, list);
  advise_stages(profile, model, now, list);
  advise_threads(profile, model, now, list);
  advise_others(profile, model, now, list);
  advise_persistent(profile, model, now, list);
  advise_script(profile, model, now, list);
  advise_outside(profile, model, now, list);
  advise_own_loader(profile, model, now, list);
  advise_prefetch(profile, model, now, list);
  advise_pinning(profile, model, now, list);
  std::ranges::stable_sort(list, std::ranges::greater{}, [](const AdviceRecord& advice) { return advice.gain ? advice.gain->speedup : 1.0; });
  return list;
}

}  // namespace dsanalyze
