#include <fmt/format.h>

#include <algorithm>

#include "advice_parts.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "core/records/rate_text.hpp"

namespace dsanalyze {
namespace {

/// A part of all of the training's time is saved, between epochs too. Prep has less time for a step then. How often it happens is known to one time.
GainRecord gain_without(const ScriptCostRecord& cost, double saved, const TrainingModel& model, const TrainingRates& now) {
  constexpr double most = 0.99;
  const double error = saved / static_cast<double>(cost.count);
  const double found = cost.training_samples_per_s;
  const auto rate = [&](double fraction) { return std::min(found / (1 - std::clamp(fraction, 0.0, most)), std::max(now.prep, found)); };
  GainRecord gain{rate(saved), {rate(saved - error), rate(saved + error)}, rate(saved) / found, true, ""};
  gain.next = bottleneck_words(now, model.shares_cores);
  return gain;
}

/// The fraction of the training's time that a validation loop saves with so many workers, which stay from one loop to the next: they prepare beside
/// the script's own part of the loop, and one prepares no faster than the script does.
double saved_with_workers(const ScriptCostRecord& cost, int workers) {
  return cost.fraction * (1 - std::max(1 - cost.waited_fraction, cost.waited_fraction / workers));
}

void add_cost(const ScriptCostRecord& cost, std::string code, std::string text, const GainRecord& gain, std::vector<AdviceRecord>& list) {
  if (gain.speedup < least_advised_gain || gain.ci95_samples_per_s.low <= cost.training_samples_per_s) return;
  add_advice(list, std::move(code), fmt::format("{}{} Without it: {}.", place_text(cost.file, cost.line), text, gain_text(gain)), gain, cost.file,
             cost.line);
}

}  // namespace

void advise_script(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  for (const ScriptCostRecord& cost : profile.script_costs) {
    if (cost.training_samples_per_s <= 0 || cost.count == 0) continue;
    if (cost.what == ScriptCostRecord::What::save)
      add_cost(cost, "slow-checkpoint",
               fmt::format("writes a checkpoint in {} each time, which is {} of the time: write it more rarely, or let a thread write a copy.",
                           format_seconds(cost.seconds_each), format_share(cost.fraction)),
               gain_without(cost, cost.fraction, model, now), list);
    else if (const int workers = std::max(model.workers, 1); cost.workers == 0)
      add_cost(cost, "validation-workers",
               fmt::format("num_workers={}, persistent_workers=True: loops over this loader take {} of the time and wait {} of that for its batches, "
                           "as it has no workers.",
                           workers, format_share(cost.fraction), format_share(cost.waited_fraction)),
               gain_without(cost, saved_with_workers(cost, workers), model, now), list);
  }
}

void advise_own_loader(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list) {
  if (!profile.own_prep || profile.own_prep->samples_per_s <= 0) return;
  const OwnPrepRecord& prep = *profile.own_prep;
  // Threads of the training process: no worker hands a batch over.
  TrainingModel own = model;
  own.workers = std::max(prep.threads / model.ranks, 1);
  own.path.found.workers.threads = 1;
  own.path.needs = {{own.workers, {model.ranks * own.workers / prep.samples_per_s, half_width(prep.ci95_samples_per_s, prep.samples_per_s)}, {}}};
  own.path.from_workers = {};
  const TrainingRates rates = rates_of(own, {});
  const GainRecord gain = gain_of(model, now, rates, false);
  if (!worthwhile(model, gain)) return;
  const LoaderRecord& loader = *profile.loader;
  std::string text = fmt::format(
      "{}dsanalyze.Loader in its place: it decodes and {} these images to {} pixels at {} samples/s on {} core{}, measured here. With it: {}.",
      place_text(loader.file, loader.line), prep.crop == OwnPrepRecord::Crop::random_resized ? "crops" : "resizes", prep.crop_size,
      format_rate(prep.samples_per_s, prep.ci95_samples_per_s), prep.threads, prep.threads == 1 ? "" : "s", gain_text(gain));
  if (!prep.left_out.empty()) {
    std::string names;
    for (const std::string& name : prep.left_out) names += (names.empty() ? "" : ", ") + printable(name);
    text += fmt::format(" What it leaves to the script: {}.", names);
  }
  add_advice(list, "own-loader", std::move(text), gain, loader.file, loader.line);
}

}  // namespace dsanalyze
