#include "attached_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "attached_runs.hpp"
#include "base/statistics.hpp"

namespace dsanalyze {
namespace {

using Drains = std::vector<const DrainMeasurement*>;

RunRecord prep_run(const DrainMeasurement& drain) {
  RunRecord run;
  run.name = "prep";
  take_use(drain.before, drain.after, run);
  for (const auto& [rank, drained] : drain.by_rank) {
    run.samples += static_cast<std::uint64_t>(std::accumulate(drained.samples.begin(), drained.samples.end(), 0.0));
    if (!drained.delivered.empty()) run.seconds = std::max(run.seconds, to_seconds(drained.delivered.back() - drained.begin));
    if (!drained.delivered.empty())
      run.first_batch_seconds = std::max(run.first_batch_seconds, to_seconds(drained.delivered.front() - drained.begin));
  }
  return run;
}

/// One after the other. What is not known of one is not known of all.
RunRecord prep_run(const Drains& drains, const RateRecord& rate) {
  RunRecord all = prep_run(*drains.front());
  double seconds = all.seconds;
  const auto mean = [&seconds](std::optional<double>& value, const std::optional<double>& next, double next_seconds) {
    const double both = seconds + next_seconds;
    value = value && next && both > 0 ? std::optional((*value * seconds + *next * next_seconds) / both) : std::nullopt;
  };
  for (auto drain = drains.begin() + 1; drain != drains.end(); ++drain) {
    const RunRecord next = prep_run(**drain);
    mean(all.cores_used, next.cores_used, next.seconds);
    mean(all.storage_wait_fraction, next.storage_wait_fraction, next.seconds);
    all.samples += next.samples;
    all.seconds = seconds += next.seconds;
    all.requested_bytes += next.requested_bytes;
    all.storage_bytes = all.storage_bytes && next.storage_bytes ? std::optional(*all.storage_bytes + *next.storage_bytes) : std::nullopt;
  }
  take_rate(rate, all);
  return all;
}

/// Seconds a sample, of the rank that takes longest. Every batch takes about as long, but for one that did not lie ready after all.
std::optional<double> take_over_seconds(const Drains& drains) {
  struct Taken {
    double samples = 0;
    double batches = 0;
    std::vector<Nanoseconds> times;
  };
  std::map<int, Taken> by_rank;
  for (const DrainMeasurement* drain : drains)
    for (const auto& [rank, drained] : drain->by_rank) {
      Taken& taken = by_rank[rank];
      taken.samples += std::accumulate(drained.samples.begin(), drained.samples.end(), 0.0);
      taken.batches += static_cast<double>(drained.samples.size());
      taken.times.insert(taken.times.end(), drained.takes.begin(), drained.takes.end());
    }
  std::optional<double> longest;
  for (auto& [rank, taken] : by_rank) {
    if (taken.times.empty() || taken.samples <= 0) continue;
    std::ranges::sort(taken.times);
    longest = std::max(longest.value_or(0), to_seconds(taken.times[(taken.times.size() - 1) / 2]) * taken.batches / taken.samples);
  }
  return longest;
}

/// CPU time a sample, over all ranks: once the workers had started, where the hook looked then.
void take_cpu(const Drains& drains, WorkerPoint& point) {
  double samples = 0;
  double cpu_seconds = 0;
  DrainedMessage::Cpu steady;
  double steady_samples = 0;
  bool known = std::ranges::none_of(drains, [](const DrainMeasurement* drain) { return drain->by_rank.empty(); });
  for (const DrainMeasurement* drain : drains)
    for (const auto& [rank, drained] : drain->by_rank) {
      samples += std::accumulate(drained.samples.begin(), drained.samples.end(), 0.0);
      cpu_seconds += drained.main_thread_cpu_seconds;
      known = known && drained.cpu.has_value();
      if (!known) continue;
      steady_samples += drained.cpu->samples;
      steady.thread_seconds += drained.cpu->thread_seconds;
      steady.process_seconds += drained.cpu->process_seconds;
      steady.workers_seconds += drained.cpu->workers_seconds;
    }
  for (const DrainMeasurement* drain : drains)
    for (const auto& [rank, drained] : drain->by_rank)
      if (!drained.delivered.empty())
        point.start_seconds = std::max(point.start_seconds.value_or(0), to_seconds(drained.delivered.front() - drained.begin));
  if (samples > 0 && cpu_seconds > 0) point.main_thread_seconds_per_sample = cpu_seconds / samples;
  point.take_over_seconds_per_sample = take_over_seconds(drains);
  if (!known || steady_samples <= 0) return;
  point.main_thread_seconds_per_sample = steady.thread_seconds / steady_samples;
  point.process_seconds_per_sample = steady.process_seconds / steady_samples;
  point.workers_seconds_per_sample = steady.workers_seconds / steady_samples;
}

/// Whether a further drain says as much as the first one did.
bool is_alike(const DrainMeasurement& further, const DrainMeasurement& first) {
  if (further.by_rank.size() != first.by_rank.size() || stretches_of(further).empty()) return false;
  return std::ranges::all_of(further.by_rank, [&](const auto& each) {
    const auto before = first.by_rank.find(each.first);
    return each.second.error.empty() && before != first.by_rank.end() && each.second.cpu.has_value() >= before->second.cpu.has_value();
  });
}

/// Of one drain, half of the 95 % interval of its rate over that, by those that were repeated: each list has those that are alike. What a machine
/// gives changes from one ten seconds to the next, which the windows of a single drain do not show. 0: too few were repeated.
double scatter_of(const std::vector<Drains>& alike) {
  constexpr std::size_t least_degrees = 3;
  double squares = 0;
  std::size_t degrees = 0;
  for (const Drains& drains : alike) {
    std::vector<double> rates;
    for (const DrainMeasurement* drain : drains)
      if (const auto stretches = stretches_of(*drain); !stretches.empty()) rates.push_back(estimate_of_ratio(stretches).value);
    if (rates.size() < 2) continue;
    const double relative = standard_deviation(rates) / mean(rates);
    squares += relative * relative * static_cast<double>(rates.size() - 1);
    degrees += rates.size() - 1;
  }
  return degrees >= least_degrees ? student_t95(degrees) * std::sqrt(squares / static_cast<double>(degrees)) : 0;
}

/// Of drains together, where one scatters so.
RateRecord rate_of_drains(const Drains& drains, double scatter, const std::string& method) {
  RateRecord rate = rate_record(stretches_of(drains), method);
  const double half = std::min(scatter / std::sqrt(static_cast<double>(drains.size())), 1.0) * rate.samples_per_s;
  rate.ci95_samples_per_s = {std::min(rate.ci95_samples_per_s.low, rate.samples_per_s - half),
                             std::max(rate.ci95_samples_per_s.high, rate.samples_per_s + half)};
  return rate;
}

/// The drains with as many workers as `first` that say as much.
Drains alike(const AttachedTraining& training, const DrainMeasurement& first) {
  Drains drains = training.drains_of(first.workers);
  std::erase_if(drains, [&](const DrainMeasurement* each) { return each != &first && !is_alike(*each, first); });
  return drains;
}

}  // namespace

void take_drains(const AttachedTraining& training, ProfileResult& result) {
  std::vector<Drains> all;
  for (const DrainMeasurement& drain : training.drains) all.push_back(alike(training, drain));
  const double scatter = scatter_of(all);
  for (std::size_t at = 0; at < training.drains.size(); ++at) {
    const DrainMeasurement& drain = training.drains[at];
    const Drains& drains = all[at];
    if (stretches_of(drain).empty()) continue;
    const RateRecord rate = rate_of_drains(
        drains, scatter, fmt::format("the training's loader drained without steps over a subset in memory, {} workers", drain.workers));
    const bool own = training.loader && drain.workers == training.loader->workers;
    WorkerPoint point{drain.workers, rate.samples_per_s, rate.ci95_samples_per_s};
    take_cpu(drains, point);
    result.prep_by_workers.push_back(point);
    if (!result.prep && own) {
      result.prep = rate;
      result.runs.push_back(prep_run(drains, rate));
    }
  }
  std::ranges::sort(result.prep_by_workers, {}, &WorkerPoint::workers);
}

}  // namespace dsanalyze
