#include "profile_simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/units.hpp"
#include "core/depths.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t steady_samples = 25'000;  ///< draws enough that the mean of times as scattered as they are long is right to a percent

bool is_whole(double value) { return value >= 1 && std::abs(value - std::round(value)) < 1e-6; }

SimulatedStorage storage_of(const ProfileResult& profile, const ProfileSettings& settings, const WhatIfAnswer& answer) {
  SimulatedStorage storage;
  storage.fetch_places = static_cast<std::uint32_t>(fetch_places(settings));
  switch (settings.storage) {
    case Seam::null:
      storage.kind = SimulatedStorage::Kind::instant;
      break;
    case Seam::emulated:
      storage.kind = SimulatedStorage::Kind::device;
      storage.device = storage_device(settings);
      storage.concurrency = profile.dataset.format == "emulated" ? 0 : static_cast<std::uint32_t>(settings.fetch_concurrency);
      break;
    case Seam::real:
      storage.kind = SimulatedStorage::Kind::measured;
      storage.concurrency = static_cast<std::uint32_t>(settings.fetch_concurrency);
      storage.request_seconds = with_mean(profile.distributions.request_seconds, storage.concurrency / answer.storage, "seconds a request");
      break;
  }
  return storage;
}

/// CPU seconds that reading one sample takes, of the run that only read; 0 where no run did.
double read_cpu_seconds(const ProfileResult& profile) {
  const RunRecord* fetch = profile.run("fetch");
  if (fetch == nullptr || fetch->timeline.empty() || !(fetch->samples_per_s > 0)) return 0;
  double cpu_fraction = 0;
  for (const TimelineRecord& look : fetch->timeline) cpu_fraction += look.cpu_fraction;
  return cpu_fraction / static_cast<double>(fetch->timeline.size()) * profile.host.cores / fetch->samples_per_s;
}

/// The share of samples that come from storage, from F by Eq 4.
double read_share(const WhatIfAnswer& answer) {
  const double share = (1 / answer.fetch - 1 / answer.cache) / (1 / answer.storage - 1 / answer.cache);
  return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
}

/// What prep of a sample takes of a core beside reads, which take their part of it: P was measured with everything in memory.
double prep_cpu_seconds(const ProfileResult& profile, const SimulatedPrep& prep, const WhatIfAnswer& answer) {
  const double alone = std::min(prep.workers, prep.cores) / answer.prep;
  return profile.settings.storage == Seam::real ? alone + read_share(answer) * read_cpu_seconds(profile) : alone;
}

SimulatedPrep prep_of(const ProfileResult& profile, const ProfileSettings& settings, const WhatIfAnswer& answer) {
  SimulatedPrep prep;
  prep.workers = static_cast<std::uint32_t>(std::max(settings.workers, 1));
  prep.cores = static_cast<std::uint32_t>(std::max(settings.cores, 1));
  switch (settings.prep) {
    case Seam::null:
      break;
    case Seam::emulated:
      prep.kind = SimulatedPrep::Kind::emulated;
      prep.seconds_per_sample = ServiceTimes::constant(1 / settings.prep_rate_per_core, "seconds of prep");
      break;
    case Seam::real:
      prep.seconds_per_sample = with_mean(profile.distributions.prep_seconds, prep_cpu_seconds(profile, prep, answer), "seconds of prep");
      break;
  }
  return prep;
}

/// Of the profile's subset, as many as an epoch needs that is not mostly its beginning and end.
std::uint32_t simulated_samples(const ProfileResult& profile, const ProfileSettings& settings) {
  constexpr std::uint64_t steps = 100, least = 10'000, most = 200'000;
  const std::uint64_t subset = profile.dataset.subset_samples > 0 ? profile.dataset.subset_samples : profile.dataset.samples;
  const auto step = static_cast<std::uint64_t>(settings.batch_size) * static_cast<std::uint64_t>(settings.accelerators);
  return static_cast<std::uint32_t>(std::min(subset, std::clamp(steps * step, least, most)));
}

bool has_policy(CacheKind kind) { return kind != CacheKind::page; }

/// Only what the answer says: it is of one job alone unless it asks for several, whatever the profile ran.
void take_jobs(const WhatIfChange& change, ProfileSettings& settings) {
  const JobSharing share = change.share.empty() ? JobSharing::none : parse_job_sharing(change.share);
  settings.jobs = static_cast<int>(change.jobs.value_or(1));
  settings.share = settings.jobs == 1 || share == JobSharing::none ? JobSharing::none : JobSharing::coordinated;
  settings.producers = settings.jobs > 1 && share == JobSharing::unified_producer ? Producers::coordinator : Producers::jobs;
  settings.job_speeds.clear();
  settings.staging_size.reset();
  settings.staging_policy.reset();
  settings.batch_copy = BatchCopy::none;
  settings.trials = 0;
  settings.stop_at_epochs.reset();
}

/// One server alone, whatever the profile ran.
void leave_ranks(ProfileSettings& settings) {
  const ProfileSettings alone;
  settings.world = alone.world;
  settings.partition = alone.partition;
  settings.balance_from = alone.balance_from;
  settings.storage_scope = alone.storage_scope;
  settings.network = alone.network;
  settings.network_bytes_per_s = alone.network_bytes_per_s;
}

/// How far the answer lies below the lowest of its rates.
double disagreement(const WhatIfAnswer& answer) { return answer.simulated ? std::fabs(answer.samples_per_s / lowest_rate(answer) - 1) : 0; }

/// Why the answer is not the lowest of its rates, sentences.
std::string why_different(const EpochSetup& setup, const WhatIfAnswer& answer) {
  EpochSetup even = setup;
  even.storage.request_seconds = ServiceTimes::constant(setup.storage.request_seconds.mean(), "seconds a request");
  const double with_even = setup.storage.kind == SimulatedStorage::Kind::measured ? simulate_epochs(even).steady.samples_per_s : 0;
  const std::uint64_t step = std::uint64_t{setup.batch_size} * setup.accelerators.count;
  const std::uint64_t steps = (setup.samples + step - 1) / step;
  if (with_even > answer.samples_per_s * (1 + notable_difference)) {
    std::string why = fmt::format(
        "Batches are delivered in order, so one that waits for slow requests delays those behind it, which {} batches of prefetch do not cover: with "
        "every request at its mean of {} it is {} samples/s.",
        setup.prefetch_batches, format_seconds(setup.storage.request_seconds.mean()), format_number(with_even));
    if (with_even < lowest_rate(answer) * (1 - notable_difference))
      why += fmt::format(" The rest is that epochs of {} steps are short: all fetches settle at the end of each.", steps);
    if (answer.change.storage_factor || answer.change.storage_bytes_per_s)
      why += " How requests differ was measured at another speed of storage and is scaled with it, so this part is an estimate.";
    return why;
  }
  return fmt::format(
      "F, P and G are close to each other there, or {} batches of prefetch are few, or epochs of {} steps are short: all fetches settle "
      "at the end of each.",
      setup.prefetch_batches, steps);
}

}  // namespace

ChangedSettings changed_settings(const ProfileResult& profile, const WhatIfAnswer& answer) {
  const WhatIfChange& change = answer.change;
  ChangedSettings changed{profile.settings, {}};
  ProfileSettings& settings = changed.settings;
  const auto refuse = [&changed](const char* why) {
    changed.why_not = why;
    return changed;
  };
  if (change.servers && *change.servers > 1) return refuse("several servers are not run yet");
  take_jobs(change, settings);
  leave_ranks(settings);
  if (change.request_bytes) return refuse("reads of another size need the samples packed otherwise: dsanalyze dataset convert");
  if (change.cache_fraction) settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, *change.cache_fraction};
  if (change.cache_fraction && settings.cache == CacheKind::none) settings.cache = CacheKind::minio;
  if (!change.cache.empty()) {
    const bool cost_aware = change.cache == "minio:cost-aware";
    settings.cache = cost_aware ? CacheKind::minio : parse_cache_kind(change.cache);
    settings.admission = cost_aware ? Admission::cost_aware : Admission::first;
  }
  if (change.cores_factor) return refuse("the number of cores behind P is not known");
  if (change.cores) {
    if (!is_whole(*change.cores)) return refuse("a part of a core cannot be given to prep");
    settings.cores = settings.workers = static_cast<int>(std::lround(*change.cores));
  }
  if (change.batch_size) {
    if (!is_whole(*change.batch_size)) return refuse("a batch has a whole number of samples");
    settings.batch_size = static_cast<int>(std::lround(*change.batch_size));
  }
  if (settings.accelerator == AcceleratorKind::cpu && (change.accelerators || change.accelerator_speed))
    return refuse("the CPU trains, and is as fast as it is: accelerators of another number or speed have to be emulated");
  if (change.accelerators) settings.accelerators = static_cast<int>(std::lround(*change.accelerators));
  if (emulates_accelerator(settings) && answer.ingestion) settings.accelerator_rate = *answer.ingestion / settings.accelerators / settings.jobs;
  if (change.fetch_concurrency) settings.fetch_concurrency = static_cast<int>(std::lround(*change.fetch_concurrency));
  if (settings.storage == Seam::emulated && profile.storage && (change.storage_factor || change.storage_bytes_per_s)) {
    const double factor = answer.storage / profile.storage->samples_per_s;
    settings.storage_bytes_per_s *= factor;
    settings.storage_latency_seconds /= factor;
  }
  return changed;
}

std::optional<EpochSetup> simulated_setup(const ProfileResult& profile, const WhatIfAnswer& answer) {
  WhatIfAnswer in_place = answer;
  if (profile.settings.storage == Seam::real) in_place.change.request_bytes.reset();  // The answer's S has it.
  const ChangedSettings changed = changed_settings(profile, in_place);
  const ProfileSettings& settings = changed.settings;
  if (!changed.why_not.empty() || runs_jobs(settings) || !has_policy(settings.cache)) return std::nullopt;
  const std::uint32_t samples = simulated_samples(profile, settings);
  if (samples == 0) return std::nullopt;
  EpochSetup setup;
  setup.samples = samples;
  setup.sample_bytes = with_mean(profile.distributions.sample_bytes, profile.dataset.mean_sample_bytes, "bytes of a sample");
  // Shards of files that are not here: for the loader's timing they are as good as samples in random order.
  setup.order = order_spec(settings);
  if (setup.order.kind == OrderKind::shards) setup.order = {};
  setup.seed = settings.seed;
  setup.epochs = 2 + std::max<std::uint64_t>(2, steady_samples / samples);
  setup.batch_size = static_cast<std::uint32_t>(settings.batch_size);
  setup.prefetch_batches = static_cast<std::uint32_t>(prefetch_batches(settings));
  setup.storage = storage_of(profile, settings, answer);
  setup.cache.kind = settings.cache;
  setup.cache.fraction = answer.change.cache_fraction ? *answer.change.cache_fraction : profile.cache_fraction().value_or(0);
  // The time of a copy out of the cache is part of what prep was measured to take.
  if (settings.prep != Seam::real) setup.cache.copy_bytes_per_s = answer.cache * profile.dataset.mean_sample_bytes;
  setup.prep = prep_of(profile, settings, answer);
  setup.accelerators.count = static_cast<std::uint32_t>(settings.accelerators);
  setup.accelerators.step = settings.step;
  setup.accelerators.samples_per_s = answer.ingestion ? *answer.ingestion / settings.accelerators : 0;
  return setup;
}

void simulate(const ProfileResult& profile, WhatIfAnswer& answer) {
  const std::optional<EpochSetup> setup = simulated_setup(profile, answer);
  if (!setup) return;
  const EpochSimulation simulation = simulate_epochs(*setup);
  const SimulatedVerdict verdict = simulate_verdict(*setup, simulation);
  const double propagated = (answer.ci95_samples_per_s.high - answer.ci95_samples_per_s.low) / 2 / answer.samples_per_s;
  const double half = std::hypot(propagated, profile.settings.prep == Seam::real ? real_run_error : simulator_error);
  answer.samples_per_s = simulation.steady.samples_per_s;
  answer.ci95_samples_per_s = {answer.samples_per_s * std::max(1 - half, 0.0), answer.samples_per_s * (1 + half)};
  answer.bottleneck = resource_name(verdict.rule.resource);
  answer.too_close |= verdict.too_close;
  if (answer.ingestion) answer.stalls = verdict.stalls;
  answer.simulated = WhatIfAnswer::Simulated{simulation.steady.stall_p50_seconds, simulation.steady.stall_p99_seconds,
                                             simulation.steady.boundary_stall_seconds, simulation.first_batch_seconds};
}

WhatIfAnswer at_prep_speed(const ProfileResult& profile, const WhatIfAnswer& answer, double factor) {
  WhatIfAnswer other = answer;
  other.prep *= factor;
  const BottleneckRule rule = bottleneck(other.fetch, other.prep, other.ingestion);
  const double change = rule.samples_per_s / answer.samples_per_s;
  other.samples_per_s = rule.samples_per_s;
  other.ci95_samples_per_s = {answer.ci95_samples_per_s.low * change, answer.ci95_samples_per_s.high * change};
  other.bottleneck = resource_name(rule.resource);
  if (answer.simulated) simulate(profile, other);
  return other;
}

std::optional<Finding> below_rates_finding(const ProfileResult& profile, const std::vector<WhatIfAnswer>& answers) {
  const auto count = std::ranges::count_if(answers, [](const WhatIfAnswer& answer) { return disagreement(answer) > notable_difference; });
  if (count == 0) return std::nullopt;
  const WhatIfAnswer& worst = *std::ranges::max_element(answers, {}, disagreement);
  return Finding{
      "below-the-rates", Finding::Severity::warning,
      fmt::format("{} of {} configurations are predicted more than {} away from min(F, P, G), by up to {}: {} samples/s instead of {}. {}", count,
                  answers.size(), format_share(notable_difference), format_share(disagreement(worst)), format_number(worst.samples_per_s),
                  format_number(lowest_rate(worst)), why_different(*simulated_setup(profile, worst), worst))};
}

}  // namespace dsanalyze
