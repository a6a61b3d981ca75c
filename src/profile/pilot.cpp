#include "pilot.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "core/rates.hpp"
#include "run_support.hpp"
#include "training.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t pilot_samples = 512;
constexpr int pilot_batch = 32;
constexpr double least_fill_bytes_per_s = 5e8;  // of copying into new shared memory, however fast storage is

bool runs(const ProfilePlan& plan, const char* name) { return std::ranges::find(plan.runs, name) != plan.runs.end(); }

double nominal_storage(const ProfileInputs& inputs, double mean_bytes) {
  const StorageDeviceSpec spec = storage_device(inputs.settings);
  return storage_device_rate(spec, mean_bytes, 2.0 * spec.queue_depth) / mean_bytes;
}

}  // namespace

RunContext pilot_context(const RunContext& context) {
  RunContext pilot = context.with_events(null_events());
  const std::uint32_t count = std::min(context.subset->size(), pilot_samples);
  if (context.inputs.settings.order != OrderKind::random) {
    pilot.subset = draw_subset(context.inputs, count);
    return pilot;
  }
  std::vector<SampleId> ids(count);
  for (std::uint32_t i = 0; i < count; ++i) ids[i] = static_cast<SampleId>(std::uint64_t{i} * context.subset->size() / count);
  pilot.subset = subset_index(*context.subset, ids);
  return pilot;
}

TimeShares::TimeShares(const Weights& weights, double planned, double budget) : m_seconds(weights), m_end(budget) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& each : m_seconds) each *= sum > 0 ? planned / sum : 0;
}

double TimeShares::left(TimedRun run, double elapsed) const {
  const double wanted = std::accumulate(m_seconds.begin() + static_cast<std::ptrdiff_t>(run), m_seconds.end(), 0.0);
  return wanted > 0 ? std::clamp((m_end - elapsed) / wanted, 0.0, 1.0) : 0;
}

double TimeShares::seconds(TimedRun run, double elapsed) const {
  constexpr double least = 0.8;  // a rate's windows need so long, after the first batch and what it takes to settle
  return std::max(planned(run) * left(run, elapsed), std::min(planned(run), least));
}

TimeShares share_time(const ProfileInputs& inputs, const ProfilePlan& plan) {
  const ProfileSettings& settings = inputs.settings;
  const bool prep = runs(plan, "prep");
  const bool on_cores = settings.prep == Seam::real && settings.prep_place == PrepPlace::cpu && settings.workers > 1;
  TimeShares::Weights weights{};
  const auto set = [&weights](TimedRun run, bool runs, double weight) { weights[static_cast<std::size_t>(run)] = runs ? weight : 0; };
  set(TimedRun::pilot, settings.prep == Seam::real || settings.storage == Seam::real, 4);
  set(TimedRun::servers, inputs.gpu && (prep || settings.prep_place != PrepPlace::cpu), 12);
  set(TimedRun::fetch, runs(plan, "fetch"), 16);
  set(TimedRun::curve, runs(plan, "fetch") || settings.admission == Admission::cost_aware, 8);
  set(TimedRun::synthetic, runs(plan, "synthetic"), 10);
  set(TimedRun::transfer, runs(plan, "synthetic") && settings.accelerator == AcceleratorKind::cuda, settings.mesh.empty() ? 10 : 15);
  set(TimedRun::filling, prep || runs(plan, "cached"), 10);
  set(TimedRun::prep, prep, 18);
  set(TimedRun::fewer_cores, prep && on_cores, 8);
  set(TimedRun::cache, prep, 4);
  set(TimedRun::cached, runs(plan, "cached"), 14);
  set(TimedRun::full, runs(plan, "full"), 32);
  constexpr double starting_and_ending = 2;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  return {weights, 0.97 * plan.seconds * sum / (sum + starting_and_ending), plan.seconds};
}

PilotRates run_pilot(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  PilotRates rates{INFINITY, INFINITY, INFINITY};
  if (emulates_accelerator(settings)) rates.training = settings.accelerator_rate * settings.accelerators;
  if (settings.accelerator == AcceleratorKind::cuda) rates.training = std::min(rates.training, rough_transfer_rate(context));
  if (settings.accelerator == AcceleratorKind::cpu) rates.training = rough_training_rate(context, seconds / 2);
  if (settings.storage == Seam::emulated) rates.storage = nominal_storage(context.inputs, mean_sample_bytes(context));
  if (settings.prep == Seam::emulated) rates.prep = settings.prep_rate_per_core * settings.cores;
  if (settings.storage != Seam::real && settings.prep != Seam::real) return rates;

  RunContext pilot = pilot_context(context);
  make_cold(pilot);
  ProfileInputs small = context.inputs;  // batches whose memory is taken in no time
  small.settings.batch_size = std::min(small.settings.batch_size, pilot_batch);
  const auto measure = [&](PrepUse prep) {
    Pipeline pipeline(small, run_spec(pilot, CacheKind::none, 0), context.timing);
    auto loader = pipeline.make_loader({.prep = prep});
    auto trainer = make_null_trainer();
    const Nanoseconds begun = context.timing.clock->now();
    train(
        *loader, *trainer,
        [&](const TrainingLog&) {
          show_progress(context, "pilot", begun, seconds);
          return to_seconds(context.timing.clock->now() - begun) >= seconds / 2;
        },
        context.stop, context.timing);
    return std::make_pair(loader->totals(), to_seconds(context.timing.clock->now() - begun));
  };
  if (settings.storage == Seam::real) {
    const auto [totals, took] = measure(PrepUse::none);
    rates.storage = std::max(1.0, static_cast<double>(totals.fetch.samples) / took);
  }
  if (settings.prep == Seam::real) {
    const auto [totals, took] = measure(PrepUse::as_set);
    const double busy = std::max(to_seconds(totals.prep.busy), 1e-6);
    rates.prep = settings.prep_place != PrepPlace::cpu
                     ? static_cast<double>(totals.prep.samples) / took
                     : std::max(1.0, static_cast<double>(totals.prep.samples) / busy * std::min<double>(settings.workers, settings.cores));
  }
  return rates;
}

std::uint64_t choose_subset(const ProfileInputs& inputs, const ProfilePlan& plan, const PilotRates& rates, double full_seconds,
                            double filling_seconds) {
  if (inputs.settings.subset) return plan.most_subset_samples;
  const ProfileSettings& settings = inputs.settings;
  // Of jobs that draw dependently the slowest trains all its epochs, too, and it is not known how much they will share.
  const bool dependent = settings.share == JobSharing::dependent;
  const double training = dependent && !settings.job_speeds.empty() ? rates.training * std::ranges::min(settings.job_speeds) : rates.training;
  const double served = dependent ? settings.jobs : 1;
  // The CPU does the one or the other.
  const double prep_and_compute =
      settings.accelerator == AcceleratorKind::cpu ? 1 / (served / rates.prep + served / rates.training) : std::min(rates.prep / served, training);
  const double cold = std::min(rates.storage / served, prep_and_compute);
  const double later = std::min(effective_fetch_rate(plan.cache_fraction, INFINITY, rates.storage) / served, prep_and_compute);
  const double mean_bytes = static_cast<double>(inputs.index->bytes()) / std::max(1U, inputs.index->size());
  auto samples = static_cast<double>(plan.most_subset_samples);
  if (std::isfinite(cold)) {
    const double full_seconds_a_sample = 1 / cold + (settings.epochs - 1) / later;
    if (runs(plan, "full")) samples = std::min(samples, 0.8 * full_seconds / full_seconds_a_sample);
    if (runs(plan, "prep") || runs(plan, "cached"))
      samples = std::min(samples, 0.7 * filling_seconds * std::min(rates.storage, least_fill_bytes_per_s / mean_bytes));
  }
  // At least two global batches, or the run says nothing about a steady state.
  const double least = 2.0 * settings.batch_size * settings.accelerators * settings.world;
  return std::min<std::uint64_t>(plan.most_subset_samples, static_cast<std::uint64_t>(std::max(samples, least)));
}

namespace {

constexpr std::uint64_t subset_key = 0x5b;

/// Neighbours in the dataset, from the begin of a file drawn at random on: orders that read neighbours one after another need them.
std::vector<SampleId> neighbours(const DatasetIndex& index, std::uint64_t samples, std::uint64_t seed) {
  auto first = static_cast<SampleId>(RandomStream(mix(seed, subset_key)).below(index.size() - samples + 1));
  while (first > 0 && index[first].file == index[first - 1].file) --first;
  std::vector<SampleId> chosen(samples);
  std::iota(chosen.begin(), chosen.end(), first);
  return chosen;
}

}  // namespace

std::shared_ptr<const DatasetIndex> draw_subset(const ProfileInputs& inputs, std::uint64_t samples) {
  const DatasetIndex& index = *inputs.index;
  if (samples >= index.size()) return inputs.index;
  if (inputs.settings.order != OrderKind::random) return subset_index(index, neighbours(index, samples, inputs.settings.seed));
  std::vector<SampleId> order(index.size());
  random_permutation(mix(inputs.settings.seed, subset_key), order);
  order.resize(samples);
  std::ranges::sort(order);
  return subset_index(index, order);
}

}  // namespace dsanalyze
