#include "attached_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/statistics.hpp"

namespace dsanalyze {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Seconds of all steps of one rank.
struct Sums {
  double steps = 0;
  double all = 0;
  double data = 0, ranks = 0, compute = 0, outside = 0, validation = 0, sampler = 0;

  void add(const StepWindow& window) {
    const double in_compute = sum(window.ranks);
    const double in_outside = sum(window.outside_ranks);
    steps += static_cast<double>(window.samples.size());
    all += step_seconds(window);
    data += sum(window.wait);
    ranks += in_compute + in_outside;
    compute += sum(window.compute) - in_compute;
    outside += sum(window.outside) - in_outside;
    validation += sum(window.validation);
    sampler += window.sampling_seconds;
  }
  void wait(double seconds) {
    all += seconds;
    data += seconds;
  }
  /// The workers' end and start is waiting for data; what the script does meanwhile is outside.
  void add(const EpochGap& gap) {
    const double seconds = to_seconds(gap.end - gap.begin);
    all += seconds;
    data += gap.start_seconds;
    outside += seconds - gap.start_seconds;
    validation += gap.validation_seconds;
    sampler += gap.sampling_seconds;
  }
  void add(const Sums& other) {
    steps += other.steps;
    all += other.all;
    data += other.data;
    ranks += other.ranks;
    compute += other.compute;
    outside += other.outside;
    validation += other.validation;
    sampler += other.sampler;
  }
  [[nodiscard]] WaitRecord part(double seconds) const { return {seconds / steps, all > 0 ? seconds / all : 0}; }
};

std::optional<BetweenEpochsRecord> between_epochs(const PhaseMeasurement& phase) {
  const auto found = std::ranges::find_if(phase.gaps, [](const auto& each) { return !each.second.empty(); });
  if (found == phase.gaps.end()) return std::nullopt;
  BetweenEpochsRecord record;
  record.epochs = found->second.size();
  const auto epochs = static_cast<double>(record.epochs);
  for (const EpochGap& gap : found->second) {
    const double seconds = to_seconds(gap.end - gap.begin);
    const double first_batch = gap.first_batch_seconds.value_or(0);
    record.seconds += seconds / epochs;
    record.data_seconds += gap.start_seconds / epochs;
    record.first_batch_seconds += first_batch / epochs;
    record.validation_seconds += gap.validation_seconds / epochs;
    record.outside_seconds += std::max(seconds - gap.start_seconds - gap.validation_seconds, 0.0) / epochs;
    if (gap.sampling_seconds > 0) record.sampler_seconds = record.sampler_seconds.value_or(0) + gap.sampling_seconds / epochs;
  }
  return record;
}

/// The rank that the others wait for: they wait for ranks, and it does hardly. Where they wait longer for data of their own than for it, all lack
/// data, and now this one is the last and now that one.
std::optional<int> delaying_rank(const std::vector<RankWaitsRecord>& ranks) {
  constexpr double least_fraction = 0.05;
  if (ranks.size() < 2) return std::nullopt;
  const auto own = [](const RankWaitsRecord& rank) {
    return rank.data.seconds_per_step + rank.compute.seconds_per_step + rank.outside.seconds_per_step;
  };
  const auto slowest = std::ranges::max_element(ranks, {}, own);
  double others_wait = 0;
  double others_own = 0;
  double others_data = 0;
  for (const RankWaitsRecord& rank : ranks) {
    if (rank.rank == slowest->rank) continue;
    others_wait += rank.ranks.fraction;
    others_own += own(rank);
    others_data += rank.data.seconds_per_step;
  }
  const auto others = static_cast<double>(ranks.size() - 1);
  const double longer = own(*slowest) - others_own / others;
  const bool delays = longer > others_data / others && longer > least_fraction * (own(*slowest) + slowest->ranks.seconds_per_step) &&
                      others_wait / others - slowest->ranks.fraction > least_fraction;
  return delays ? std::optional(slowest->rank) : std::nullopt;
}

}  // namespace

std::vector<double> data_waits(const std::map<int, std::vector<StepWindow>>& windows) {
  std::vector<double> waits;
  for (const auto& [rank, list] : windows)
    for (const StepWindow& window : list) waits.insert(waits.end(), window.wait.begin(), window.wait.end());
  return waits;
}

void take_supplies(const AttachedTraining& training, WaitsRecord& waits) {
  const auto drain = std::ranges::find(training.drains, training.loader->workers, &DrainMeasurement::workers);
  if (drain == training.drains.end()) return;
  for (RankWaitsRecord& rank : waits.by_rank) {
    const auto drained = drain->by_rank.find(rank.rank);
    if (drained == drain->by_rank.end() || drained->second.samples.empty()) continue;
    DrainMeasurement alone;
    alone.by_rank.insert(*drained);
    const double samples = sum(drained->second.samples) / static_cast<double>(drained->second.samples.size());
    if (const double rate = estimate_of_ratio(stretches_of(alone)).value; rate > 0) rank.supply_seconds_per_step = samples / rate;
  }
}

std::string cpus_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t at = 0; at < cpus.size();) {
    std::size_t last = at;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[at]);
    if (last > at) text += fmt::format("-{}", cpus[last]);
    at = last + 1;
  }
  return text;
}

void take_cpus(const AttachedTraining& training, WaitsRecord& waits) {
  for (RankWaitsRecord& each : waits.by_rank)
    if (const auto cpus = training.cpus.find(each.rank); cpus != training.cpus.end()) {
      each.cores = static_cast<int>(cpus->second.size());
      each.cpus = cpus_text(cpus->second);
    }
}

void leave_out_hidden(double lost_fraction, WaitsRecord& waits) {
  const double waited = waits.data.fraction;
  if (waited <= lost_fraction) return;
  const auto move = [part = lost_fraction / waited](WaitRecord& data, WaitRecord& compute) {
    const WaitRecord hidden{data.seconds_per_step * (1 - part), data.fraction * (1 - part)};
    data = {data.seconds_per_step - hidden.seconds_per_step, data.fraction - hidden.fraction};
    compute = {compute.seconds_per_step + hidden.seconds_per_step, compute.fraction + hidden.fraction};
  };
  move(waits.data, waits.compute);
  for (RankWaitsRecord& rank : waits.by_rank) move(rank.data, rank.compute);
}

WaitsRecord waits_of(const PhaseMeasurement& phase) {
  WaitsRecord record;
  Sums all;
  for (const auto& [rank, list] : phase.by_rank) {
    Sums sums;
    for (const StepWindow& window : list)
      if (!window.is_counted()) sums.add(window);
    sums.wait(first_wait(phase, rank) * sums.steps);
    if (const auto gaps = phase.gaps.find(rank); phase.whole_run && gaps != phase.gaps.end())
      for (const EpochGap& gap : gaps->second) sums.add(gap);
    if (sums.steps == 0) continue;
    all.add(sums);
    record.by_rank.push_back({rank, sums.part(sums.data), sums.part(sums.ranks), sums.part(sums.compute), sums.part(sums.outside)});
  }
  if (all.steps == 0) return record;
  record.step_seconds = all.all / all.steps;
  record.data_p99_seconds = quantile(data_waits(phase.by_rank), 0.99);
  record.data = all.part(all.data);
  record.ranks = all.part(all.ranks);
  record.compute = all.part(all.compute);
  record.outside = all.part(all.outside);
  record.validation = all.part(all.validation);
  if (all.sampler > 0) record.sampler = all.part(all.sampler);
  const double rest = all.all - all.data - all.ranks - all.compute - all.outside;
  constexpr double clock_tick = 1e-9;
  record.unexplained = all.part(std::abs(rest) < clock_tick * all.steps ? 0 : rest);
  record.between_epochs = between_epochs(phase);
  if (record.between_epochs) record.between_epochs->steps = phase.pass_steps;
  record.delaying_rank = delaying_rank(record.by_rank);
  if (record.by_rank.size() < 2) record.by_rank.clear();
  return record;
}

}  // namespace dsanalyze
