#include "training_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "models/path/training_path.hpp"
#include "training_cores.hpp"
#include "training_delivery.hpp"
#include "training_prep.hpp"
#include "training_supply.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

using Limit = TrainingRates::Limit;

constexpr double least_loss = 0.02;

Interval around(double value, double error) { return {value * std::max(0.0, 1 - error), value * (1 + error)}; }

const RateRecord& measured_rate(const std::optional<RateRecord>& rate, const char* letter) {
  if (!rate || rate->samples_per_s <= 0)
    throw UsageError(
        fmt::format("the profile of this training has no {}: its phases were not all measured (see its findings). Profile it again, "
                    "with a longer --time-budget where steps are long",
                    letter));
  return *rate;
}

std::string detail_of_steps(const TrainingModel& model, double delivery, double speed) {
  const double compute = (model.step_samples / model.ingestion - model.outside_seconds) / speed;
  if (delivery > std::max(compute, model.outside_seconds)) return "delivery";
  return model.outside_seconds > compute ? "outside" : "accelerator";
}

std::string detail_of_prep(const TrainingModel& model, Limit limit) {
  constexpr double hardly_busy = 0.3;
  if (limit == Limit::process) return "delivery";
  return limit == Limit::workers && model.worker_cpu && *model.worker_cpu < hardly_busy * worker_seconds(model) ? "latency" : "prep";
}

/// As much as the training as found lost, where it competed.
double competing_loss(TrainingModel model) {
  const double unknown = model.competing_loss;
  model.storage.reset();  // which it did not wait for, whatever it will in the long run
  const auto rate = [&model](double loss) {
    model.competing_loss = loss;
    return rates_of(model, {}).samples_per_s;
  };
  const double beside = rate(0);
  const double in_turn = rate(1);
  constexpr double clearly_apart = 0.95;
  return in_turn > clearly_apart * beside ? unknown : std::clamp((beside - model.found) / (beside - in_turn), 0.0, 1.0);
}

}  // namespace

TrainingModel training_model(const ProfileResult& profile) {
  const RunRecord* const full = profile.run("full");
  if (profile.command.empty() || !profile.loader) throw UsageError("the profile is not of a launched training");
  const RateRecord& prep = measured_rate(profile.prep, "P");
  const RateRecord& ingestion = measured_rate(profile.ingestion, "G");
  if (full == nullptr || full->samples_per_s <= 0 || !profile.waits)
    throw UsageError(
        "the profile does not say what the steps of this training wait for (see its findings), so nothing can be said of a change to its loader");
  if (!(profile.waits->step_seconds > 0)) throw UsageError("/waits/step_seconds: found 0, expected the time of a step: profile the command again");
  if (profile.loader->style == LoaderRecord::Style::watched)
    throw UsageError(
        "how the iterable that the script watches prepares its batches is not known, so nothing can be said of a change to it. A DataLoader is "
        "predicted");
  TrainingModel model;
  model.ranks = std::max(profile.settings.accelerators, 1);
  model.workers = profile.loader->workers;
  model.cores = std::max(profile.launch ? profile.launch->cores.value_or(profile.host.cores) : profile.host.cores, 1.0);
  const WorkerPoint* own = nullptr;
  const WorkerPoint* first_with_workers = nullptr;
  for (const WorkerPoint& point : profile.prep_by_workers) {
    if (point.samples_per_s <= 0) continue;
    model.prep.push_back(
        {point.workers, point.samples_per_s, half_width(point.ci95_samples_per_s, point.samples_per_s), point.busy_take_over_seconds_per_sample});
    if (!point.workers_seconds_per_sample) continue;
    // Workers that wait for a core need no more of it; the fewest that were measured are the least disturbed.
    if (point.workers > 0 && first_with_workers == nullptr) {
      first_with_workers = &point;
      model.worker_cpu = point.workers_seconds_per_sample;
    }
    if (own == nullptr || point.workers == model.workers) own = &point;
  }
  if (model.prep.empty()) model.prep.push_back({model.workers, prep.samples_per_s, half_width(prep.ci95_samples_per_s, prep.samples_per_s)});
  std::ranges::sort(model.prep, {}, &TrainingModel::Point::workers);
  if (profile.finds("drain-failed")) model.most_workers = std::max(model.prep.back().workers, 1);
  if (const auto batches = profile.loader->batches;
      batches && static_cast<double>(*batches) < most_extrapolation * std::max(model.prep.back().workers, 1))
    model.most_workers = std::max(static_cast<int>(*batches), 1);
  if (profile.finds("workers-repeat")) model.most_workers = std::max(model.workers, 1);
  if (own != nullptr && own->workers == 0) {
    // The process prepares: all but nothing of its time is taking over. What it costs to take a batch from a worker was measured with some.
    if (!model.worker_cpu) model.worker_cpu = own->process_seconds_per_sample.value_or(0);
    own = first_with_workers;
  }
  if (own != nullptr) {
    model.process_cpu = own->process_seconds_per_sample.value_or(0);
    model.thread_cpu = std::min(own->main_thread_seconds_per_sample.value_or(0), model.process_cpu);
    model.take_over = std::max(model.thread_cpu, own->take_over_seconds_per_sample.value_or(0));
  }
  model.ingestion = ingestion.samples_per_s;
  model.ingestion_error = half_width(ingestion.ci95_samples_per_s, ingestion.samples_per_s);
  model.step_samples = profile.waits->step_seconds * full->samples_per_s;
  const double step = model.step_samples / model.ingestion;
  const double found_step = model.step_samples / full->samples_per_s;
  model.outside_seconds = std::min(profile.waits->outside.seconds_per_step, step);
  // A process that rested before it takes a batch over, as in drains, may wake late: it is never more than what a step as found took beyond G's.
  model.take_over = std::clamp(std::max(found_step - step, 0.0) * model.ranks / model.step_samples, model.thread_cpu, model.take_over);
  model.found = full->samples_per_s;
  model.ci95_found = full->ci95_samples_per_s;
  if (const RunRecord* const synthetic = profile.run("synthetic"); synthetic != nullptr && synthetic->cores_used)
    model.training_cpu = *synthetic->cores_used / model.ingestion;
  model.shares_cores = profile.host.accelerator_shares_cores;
  model.crowded = others_leave_no_core(*full, profile.host.cores);
  model.disturbed = profile.finds(beside_others_code);
  model.waits_for_storage = (profile.bottleneck && profile.bottleneck->detail == "storage") ||
                            (profile.stalls && profile.stalls->fetch.fraction > least_loss && profile.stalls->fetch.ci95_fraction.low > 0);
  model.slowed_seconds = slowed_seconds(model, *profile.waits);
  // Where the loader keeps up, all that a step waits for is its batch's delivery.
  model.delivery_seconds = model.take_over * model.step_samples / model.ranks;
  constexpr double keeps_up = 1.1;
  if (model.workers > 0 && !model.waits_for_storage && prep.samples_per_s > keeps_up * model.ingestion)
    model.delivery_seconds = std::max(model.delivery_seconds, found_step - step - held_up_seconds(model, model.workers, model.cores, model.found));
  // A step as found lost no more than it took beyond G's, whatever it waited for.
  if (const double late = held_up_seconds(model, model.workers, model.cores, model.found); late > 0)
    model.held_up_fraction = std::clamp((found_step - step - model.delivery_seconds) / late, 0.0, 1.0);
  if (full->epoch_seconds > 0) model.epoch_samples = full->epoch_seconds * full->samples_per_s;
  model.storage = storage_of(profile, *full);
  model.epoch_unknown = profile.storage && profile.reads && !profile.reads->dataset_bytes;
  if (model.waits_for_storage) return model;
  model.competing_loss = competing_loss(model);
  if (profile.waits->outside.seconds_per_step <= least_loss * found_step) learn_from_found(model, *full, profile.run("prep"));
  if (model.workers == 0) {
    TrainingModel from_memory = model;
    from_memory.storage.reset();
    model.unexplained_seconds = std::max(1 / model.found - 1 / rates_of(from_memory, {}).samples_per_s, 0.0);
  }
  return model;
}

TrainingModel with_less_cpu(const TrainingModel& model, double fraction) {
  TrainingModel less = model;
  const double saved = fraction * *model.worker_cpu;
  constexpr double least_left = 0.01;  // of the time that a worker takes: a sample is never free
  const auto measured = std::ranges::find_if(model.prep, [](const TrainingModel::Point& point) { return point.workers > 0; });
  // Workers that waited for cores take their CPU time alone.
  constexpr double nearly = 0.9;
  const double cpu = *model.worker_cpu + model.process_cpu;
  const bool waited = measured != model.prep.end() && cpu > 0 && measured->samples_per_s > nearly * model.cores / cpu;
  const double seconds = waited ? cpu : worker_seconds(model);
  // Threads that compute at once save a worker's time once.
  const double left = seconds - (waited ? saved : fraction * std::min(*model.worker_cpu, seconds));
  const double faster = seconds / std::max(left, least_left * seconds);
  less.worker_cpu = *model.worker_cpu - saved;
  // What a drain does not see is not saved.
  if (model.beside_steps < 1 && cpu > saved) {
    const double unseen = cpu * (1 / model.beside_steps - 1);
    less.beside_steps = (cpu - saved) / (cpu - saved + unseen);
  }
  // The first of them says how long a worker takes, which the law of the others needs.
  const auto first = std::ranges::find_if(less.prep, [](const TrainingModel::Point& point) { return point.workers > 0; });
  if (first != less.prep.end()) first->samples_per_s *= faster;
  for (std::size_t at = 0; at < less.prep.size(); ++at) {
    TrainingModel::Point& point = less.prep[at];
    if (first != less.prep.end() && &point == &*first) continue;
    const bool alone = point.workers == 0 && first == less.prep.end();  // its rate is where a worker's time comes from
    point.samples_per_s *= alone ? faster : prep_law(less, point.workers, less.cores).rate / prep_law(model, point.workers, model.cores).rate;
  }
  return less;
}

TrainingRates rates_of(const TrainingModel& model, const TrainingChange& change) {
  if (model.path) return rates_by_path(model, *model.path, change);
  const int workers = change.workers.value_or(model.workers);
  const double cores = change.cores.value_or(model.cores);
  const double speed = change.speed.value_or(1);
  if (workers < 0) throw UsageError(fmt::format("--workers: found {}, expected 0 or more", workers));
  whatif::require_positive(cores, "--cores");
  if (!(speed > 0)) throw UsageError("--accelerator-speed: expected a factor above 0");
  if (change.cores && !model.worker_cpu)
    throw UsageError("--cores: the profile does not say how much CPU time its loader takes (an older dsanalyze made it): profile the command again");

  TrainingRates rates;
  const PrepRate from_memory = prep_from_memory(model, workers, cores);
  double prep_error = std::hypot(from_memory.error, model.run_error);
  rates.prep = rates.prep_from_memory = from_memory.rate;
  rates.prep_limit = from_memory.limit;
  bool storage_gives_all = false;
  if (model.storage) {
    const TrainingModel::Storage& storage = *model.storage;
    const ChangedSupply changed = changed_supply(storage, change);
    const double here = static_cast<double>(storage.page_cache_bytes) / static_cast<double>(storage.dataset_bytes);
    rates.storage = std::min(supply(changed.curve, std::max(model.ranks * std::max(workers, 1), 1)), changed.most);
    rates.miss_fraction =
        storage.misses.at(static_cast<std::size_t>(change.order.value_or(storage.order))).storage_share(change.cached.value_or(here));
    rates.prep = prep_with_storage(model, workers, cores, rates.prep_from_memory, from_memory.limit, rates.miss_fraction, changed);
    constexpr double all = 0.99;
    storage_gives_all = rates.miss_fraction > 0 && rates.prep >= all * changed.most / rates.miss_fraction;
    // What storage makes slower is as uncertain as storage, and as what the cache misses.
    constexpr double of_misses = 0.05;
    prep_error = std::hypot(prep_error, (1 - rates.prep / rates.prep_from_memory) * std::hypot(storage.error, of_misses));
  }
  rates.ci95_prep = around(rates.prep, prep_error);
  const double step = (model.step_samples / model.ingestion - model.outside_seconds) / speed + model.outside_seconds;
  const double delivery = steady_delivery_seconds(model, workers, cores, rates.prep, step);
  rates.ingestion = model.step_samples / (step + delivery);
  const double held_up_error =
      held_up_error_seconds(model, workers, cores, std::min(rates.prep, rates.ingestion), step * model.ingestion / model.step_samples) /
      (step + delivery);
  rates.ci95_ingestion = around(rates.ingestion, std::hypot(model.ingestion_error, model.run_error, held_up_error));
  const auto in_turn = [](double prep, double ingestion) { return prep > 0 && ingestion > 0 ? 1 / (1 / prep + 1 / ingestion) : 0; };

  double of_cores = std::numeric_limits<double>::infinity();
  bool competes = false;
  if (model.worker_cpu && model.training_cpu && model.shares_cores) {
    of_cores = cores / (*model.worker_cpu + model.process_cpu + training_cpu(model, speed));
    of_cores *= from_memory.of_cores;
    competes = training_cpu(model, speed) * std::min(rates.prep, rates.ingestion) > least_training_share * cores;
  }
  if (workers == 0) {
    const auto as_found = [&](double prep, double ingestion) {
      const double rate = in_turn(prep, ingestion);
      return rate > 0 ? 1 / (1 / rate + model.unexplained_seconds) : 0;
    };
    rates.samples_per_s = as_found(rates.prep, rates.ingestion);
    rates.ci95 = {as_found(rates.ci95_prep.low, rates.ci95_ingestion.low), as_found(rates.ci95_prep.high, rates.ci95_ingestion.high)};
  } else {
    rates.samples_per_s = std::min({rates.prep, rates.ingestion, of_cores});
    rates.ci95 = {std::min({rates.ci95_prep.low, rates.ci95_ingestion.low, of_cores * std::max(0.0, 1 - prep_error)}),
                  std::min({rates.ci95_prep.high, rates.ci95_ingestion.high, of_cores * (1 + prep_error)})};
  }
  const bool by_cores = workers > 0 && competes && of_cores < std::min(rates.prep, rates.ingestion);
  const bool by_prep = rates.prep < rates.ingestion;
  rates.bottleneck = by_cores || by_prep ? "cpu" : "gpu";
  rates.detail = by_cores ? "cores" : by_prep ? detail_of_prep(model, from_memory.limit) : detail_of_steps(model, delivery, speed);
  // Storage, where prep from memory would do, where it supplies all that it can, or where it costs the workers more than prep itself.
  constexpr double mostly = 0.5;
  const bool held_up = workers > 0 && (rates.prep_from_memory >= rates.ingestion || storage_gives_all);
  if (by_prep && !by_cores && (held_up || rates.prep < mostly * rates.prep_from_memory)) {
    rates.bottleneck = "io";
    rates.detail = "storage";
  }
  const double ratio = std::max(rates.prep, rates.ingestion) / std::min(rates.prep, rates.ingestion);
  rates.too_close = rates.ci95_prep.overlaps(rates.ci95_ingestion) || (workers > 0 && ratio < 1 + hardly_apart);
  // On cores that the workers use up the training process waits for one too, with batches at hand: which of both is slower does not show.
  constexpr double on_full_cores = 1.25;
  rates.too_close |= workers > 0 && model.shares_cores && from_memory.limit == Limit::cores && ratio < on_full_cores;
  // So it does where all cores together supply about as much as the steps take.
  rates.too_close |=
      workers > 0 && competes && !by_prep && of_cores < (1 + hardly_apart) * rates.ingestion && of_cores * (1 + hardly_apart) > rates.ingestion;
  constexpr double clearly = 1.5;
  if (const double contended = workers > 0 ? competition(model, rates.samples_per_s, rates.ingestion, cores, speed) : 0; contended > 0) {
    const double turns = in_turn(rates.prep, rates.ingestion);
    const double lost = contended * std::max(rates.samples_per_s - turns, 0.0);
    rates.ci95.low = std::min(rates.ci95.low, rates.samples_per_s - lost);
    rates.samples_per_s -= model.competing_loss * lost;
    rates.too_close |= ratio < clearly && lost > least_loss * rates.samples_per_s;
  }
  // Whether storage or prep holds the workers up is not known for sure where both do.
  if (rates.miss_fraction > 0 && by_prep && !storage_gives_all && rates.prep_from_memory < rates.ingestion) {
    constexpr double alike = 0.25;
    const double lost = rates.prep / rates.prep_from_memory;
    rates.too_close |= std::abs(lost - mostly) < alike;
  }
  if (storage_gives_all && rates.prep_from_memory < rates.ingestion) rates.too_close |= rates.prep > (1 - hardly_apart) * rates.prep_from_memory;
  if (model.waits_for_storage && !model.storage) {
    // What storage supplies is known of the training as found alone.
    if (workers <= model.workers) rates.samples_per_s = std::min(rates.samples_per_s, model.found);
    rates.ci95.low = std::min({rates.ci95.low, model.ci95_found.low, rates.samples_per_s});
    rates.too_close = true;
    if (rates.samples_per_s == model.found) rates.bottleneck = "io", rates.detail = "storage";
  }
  rates.too_close |= model.disturbed;
  const int most = std::max(model.prep.back().workers, 1);
  rates.extrapolation = std::max({1.0, static_cast<double>(workers) / most, cores / model.cores, speed});
  return rates;
}

std::string bottleneck_words(const TrainingRates& rates, bool cpu_trains) {
  if (rates.detail == "storage") return "storage";
  if (rates.detail == "cores") return "the cores, which prep and training share";
  if (rates.detail == "delivery") return "taking batches over";
  if (rates.detail == "outside") return "what lies outside of the steps";
  const std::string trainer = cpu_trains ? "compute" : "GPU";
  return rates.bottleneck == "gpu" ? trainer : "prep";
}

}  // namespace dsanalyze
