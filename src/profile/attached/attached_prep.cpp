#include "attached_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "attached_reads.hpp"
#include "attached_runs.hpp"
#include "base/statistics.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr const char* left_out_code = "prep-not-separable";
constexpr double least_read_before = 0.9;  ///< of what a drain reads, where two starts of a stream read the same

RunRecord prep_run(const DrainMeasurement& drain, const RateRecord& rate) {
  RunRecord run;
  run.name = "prep";
  take_rate(rate, run);
  take_use(drain.before, drain.after, run);
  run.memory_peak_bytes = drain.memory_peak;
  for (const auto& [rank, drained] : drain.by_rank) {
    run.samples += static_cast<std::uint64_t>(std::accumulate(drained.samples.begin(), drained.samples.end(), 0.0));
    if (!drained.delivered.empty()) run.seconds = std::max(run.seconds, to_seconds(drained.delivered.back() - drained.begin));
    if (!drained.delivered.empty())
      run.first_batch_seconds = std::max(run.first_batch_seconds, to_seconds(drained.delivered.front() - drained.begin));
  }
  return run;
}

/// Of workers that rest every batch takes about as long, but for one that did not lie ready after all.
Nanoseconds resting_take(const std::vector<Nanoseconds>& sorted) { return sorted[(sorted.size() - 1) / 2]; }

/// Of busy ones some come at once and some late, so all count but the few that took longest.
Nanoseconds busy_take(const std::vector<Nanoseconds>& sorted) {
  constexpr std::size_t left_out_of = 8;
  const std::size_t counted = sorted.size() - sorted.size() / left_out_of;
  return std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(counted), Nanoseconds{0}) / static_cast<Nanoseconds>(counted);
}

/// Seconds a sample, of the rank that takes longest.
std::optional<double> take_over_seconds(const DrainMeasurement& drain, std::vector<Nanoseconds> DrainedMessage::*times,
                                        Nanoseconds (*typical)(const std::vector<Nanoseconds>&)) {
  std::optional<double> longest;
  for (const auto& [rank, drained] : drain.by_rank) {
    const double samples = std::accumulate(drained.samples.begin(), drained.samples.end(), 0.0);
    std::vector<Nanoseconds> taken = drained.*times;
    if (taken.empty() || samples <= 0) continue;
    std::ranges::sort(taken);
    const double each = to_seconds(typical(taken)) * static_cast<double>(drained.samples.size()) / samples;
    longest = std::max(longest.value_or(0), each);
  }
  return longest;
}

/// CPU time a sample, over all ranks: once the workers had started, where the hook looked then.
void take_cpu(const DrainMeasurement& drain, WorkerPoint& point) {
  double samples = 0;
  double cpu_seconds = 0;
  DrainedMessage::Cpu steady;
  std::optional<double> waited = 0;
  double steady_samples = 0;
  bool known = !drain.by_rank.empty();
  for (const auto& [rank, drained] : drain.by_rank) {
    samples += std::accumulate(drained.samples.begin(), drained.samples.end(), 0.0);
    cpu_seconds += drained.main_thread_cpu_seconds;
    known = known && drained.cpu.has_value();
    if (!known) continue;
    steady_samples += drained.cpu->samples;
    steady.thread_seconds += drained.cpu->thread_seconds;
    steady.process_seconds += drained.cpu->process_seconds;
    steady.workers_seconds += drained.cpu->workers_seconds;
    waited = waited && drained.cpu->waited_seconds ? std::optional(*waited + *drained.cpu->waited_seconds) : std::nullopt;
  }
  if (samples > 0 && cpu_seconds > 0) point.main_thread_seconds_per_sample = cpu_seconds / samples;
  point.take_over_seconds_per_sample = take_over_seconds(drain, &DrainedMessage::takes, &resting_take);
  point.busy_take_over_seconds_per_sample = take_over_seconds(drain, &DrainedMessage::busy_takes, &busy_take);
  if (!known || steady_samples <= 0) return;
  point.main_thread_seconds_per_sample = steady.thread_seconds / steady_samples;
  point.process_seconds_per_sample = steady.process_seconds / steady_samples;
  point.workers_seconds_per_sample = steady.workers_seconds / steady_samples;
  if (waited) point.workers_waited_seconds_per_sample = *waited / steady_samples;
}

/// Where a tracer says which data a start of the stream read, that counts; else what the first batches look like.
bool reads_other_data(const LaunchedTraining& launched, const DrainMeasurement& drain) {
  const AttachedTraining& training = launched.training;
  if (!training.loader || training.loader->style == LoaderRecord::Style::map || training.stream_goes_on()) return false;
  if (const auto before = read_before(launched, drain)) return *before < least_read_before;
  return std::ranges::any_of(drain.by_rank, [](const auto& each) { return each.second.differs; });
}

void leave_out(const LaunchedTraining& launched, const DrainMeasurement& drain, const RunRecord& run, ProfileResult& result) {
  const bool own = drain.workers == launched.training.loader->workers;
  const auto before = read_before(launched, drain);
  const std::string other = before ? fmt::format("{:.0f} % of what it read had been read by the pass before", 100 * *before)
                                   : "its first batches are not those of the pass before";
  const std::string from = run.storage_bytes ? fmt::format("{} of it came from storage", format_bytes(*run.storage_bytes))
                                             : "how much of it came from storage is not known";
  result.findings.push_back(
      {left_out_code, Finding::Severity::warning,
       fmt::format(
           "P with {} worker{} is not separable from storage, and was left out{}: the stream read other data when it was begun again ({}), and "
           "{}. Let the order of a stream follow from a seed, or profile with a part of the data that fits into memory.",
           drain.workers, drain.workers == 1 ? "" : "s", own ? ", as all of P" : "", other, from)});
}

}  // namespace

std::optional<double> read_before(const LaunchedTraining& launched, const DrainMeasurement& drain) {
  constexpr std::uint64_t block = std::uint64_t{64} << 10;
  const auto& warm = launched.training.warm;
  if (!launched.accesses || !warm || !warm->before || !warm->after || !drain.before || !drain.after) return std::nullopt;
  const AccessTrace& trace = *launched.accesses;
  // Beyond its limit the list has no accesses.
  if (trace.left_out > 0 && (trace.accesses.empty() || trace.accesses.back().end < drain.after->at)) return std::nullopt;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> known;
  const auto blocks_of = [&](const FileAccess& access, auto&& take) {
    const TracedFile& file = trace.files[access.file];
    for (std::uint64_t at = access.offset; at < access.offset + access.bytes; at = (at / block + 1) * block)
      take(std::tuple(file.device, file.inode, at / block), std::min(access.offset + access.bytes, (at / block + 1) * block) - at);
  };
  Bytes all = 0;
  Bytes again = 0;
  for (const FileAccess& access : trace.accesses) {
    if (!reads_bytes(access.kind) || !is_data(trace.files[access.file].path)) continue;
    if (access.end >= warm->before->at && access.end <= warm->after->at)
      blocks_of(access, [&](const auto& each, Bytes) { known.insert(each); });
    else if (access.end >= drain.before->at && access.end <= drain.after->at)
      blocks_of(access, [&](const auto& each, Bytes bytes) {
        all += bytes;
        again += known.contains(each) ? bytes : 0;
      });
  }
  if (known.empty() || all == 0) return std::nullopt;
  return static_cast<double>(again) / static_cast<double>(all);
}

void take_drains(const LaunchedTraining& launched, ProfileResult& result) {
  const AttachedTraining& training = launched.training;
  for (const DrainMeasurement& drain : training.drains) {
    const std::vector<Stretch> stretches = stretches_of(drain);
    if (stretches.empty()) continue;
    const RateRecord rate =
        rate_record(stretches, fmt::format("the training's loader drained without steps over a subset in memory, {} workers", drain.workers));
    const bool own = training.loader && drain.workers == training.loader->workers;
    RunRecord run = prep_run(drain, rate);
    if ((!run.storage_bytes || came_from_storage(run, tolerated_fraction)) && reads_other_data(launched, drain)) {
      leave_out(launched, drain, run, result);
      if (own) break;
      continue;
    }
    WorkerPoint point{drain.workers, rate.samples_per_s, rate.ci95_samples_per_s};
    take_cpu(drain, point);
    result.prep_by_workers.push_back(point);
    if (!result.prep && own) {
      result.prep = rate;
      result.runs.push_back(std::move(run));
    }
  }
  if (is_prep_left_out(result)) result.prep_by_workers.clear();
  std::ranges::sort(result.prep_by_workers, {}, &WorkerPoint::workers);
}

bool is_prep_left_out(const ProfileResult& result) { return !result.prep && result.finds(left_out_code); }

}  // namespace dsanalyze
