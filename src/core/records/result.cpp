#include "result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text/enum_names.hpp"
#include "jobs_record.hpp"
#include "search_result.hpp"
#include "version.hpp"

namespace dsanalyze {

ToolRecord this_tool() { return {"dsanalyze", tool_version, tool_commit}; }

HostRecord machine_record(const HostFacts& host) {
  HostRecord record;
  record.cpu_model = host.cpu_model;
  record.cores = host.cores_usable;
  record.cores_online = host.cores_online;
  record.cores_physical = host.cores_physical;
  record.memory_bytes = host.memory_usable;
  record.memory_total_bytes = host.memory_total;
  record.kernel = host.kernel;
  record.cgroup_version = host.cgroup.version;
  return record;
}

double relative_error(const RateRecord& rate) {
  if (rate.samples_per_s <= 0) return 0;
  if (rate.windows == 1) return 1;
  return std::max((rate.ci95_samples_per_s.high - rate.ci95_samples_per_s.low) / 2 / rate.samples_per_s, 0.0);
}

Interval known_interval(const RateRecord& rate) { return rate.windows == 1 ? Interval{0, 2 * rate.samples_per_s} : rate.ci95_samples_per_s; }

std::optional<FetchedRecord> fetched_beyond_epochs(const RunRecord& run) {
  FetchedRecord left{run.requested_bytes, run.cache_hits, run.cache_misses};
  std::uint64_t next = 0;
  for (const EpochRecord& epoch : run.epochs) {
    if (epoch.epoch != next++ || !epoch.requested_bytes || !epoch.cache_hits || !epoch.cache_misses) return std::nullopt;
    // Counted by others than those who counted the run.
    if (*epoch.requested_bytes > left.requested_bytes || *epoch.cache_hits > left.cache_hits || *epoch.cache_misses > left.cache_misses)
      return std::nullopt;
    left.requested_bytes -= *epoch.requested_bytes;
    left.cache_hits -= *epoch.cache_hits;
    left.cache_misses -= *epoch.cache_misses;
  }
  return left;
}

Interval known_interval(const RunRecord& run) { return run.windows == 1 ? Interval{0, 2 * run.samples_per_s} : run.ci95_samples_per_s; }

std::optional<WorkerPoint> ProfileResult::better_workers() const {
  constexpr double least_gain = 1.1;
  constexpr double as_good = 0.98;
  const RunRecord* const full = run("full");
  if (!loader || prep_by_workers.empty()) return std::nullopt;
  const auto reached = [this](const WorkerPoint& point) {
    return ingestion ? std::min(point.samples_per_s, ingestion->samples_per_s) : point.samples_per_s;
  };
  double now = 0;
  double now_high = 0;  ///< what the loader may deliver now
  for (const WorkerPoint& point : prep_by_workers) {
    if (point.workers != loader->workers) continue;
    now = reached(point);
    if (loader->workers > 0) now_high = point.ci95_samples_per_s.high;
  }
  // Each batch is one worker's, so that an epoch of few batches has no work for more.
  const auto surely_more = [&](const WorkerPoint& point) {
    const bool has_work = !loader->batches || static_cast<std::uint64_t>(std::max(point.workers, 0)) <= *loader->batches;
    return point.workers != loader->workers && has_work && point.ci95_samples_per_s.low > now_high;
  };
  double best = 0;
  for (const WorkerPoint& point : prep_by_workers)
    if (surely_more(point)) best = std::max(best, reached(point));
  // Without workers prep and training take turns, and what is reached is less than either rate.
  if (loader->workers == 0) now = full == nullptr ? 0 : full->samples_per_s;
  if (now <= 0 || best < least_gain * now) return std::nullopt;
  std::optional<WorkerPoint> fewest;
  for (const WorkerPoint& point : prep_by_workers) {
    const bool good = surely_more(point) && reached(point) >= as_good * best;
    if (good && (!fewest || point.workers < fewest->workers)) fewest = point;
  }
  return fewest;
}

RankDelay delay_of(const std::vector<RankWaitsRecord>& ranks, int rank) {
  const auto longer = [&](WaitRecord RankWaitsRecord::*part) {
    double own = 0;
    double others = 0;
    for (const RankWaitsRecord& each : ranks) (each.rank == rank ? own : others) += (each.*part).seconds_per_step;
    return own - others / std::max(static_cast<double>(ranks.size()) - 1, 1.0);
  };
  const double data = longer(&RankWaitsRecord::data);
  const double compute = longer(&RankWaitsRecord::compute);
  const double outside = longer(&RankWaitsRecord::outside);
  if (data >= compute && data >= outside) return RankDelay::data;
  return compute >= outside ? RankDelay::compute : RankDelay::outside;
}

double step_without(const std::vector<RankWaitsRecord>& ranks, int rank) {
  double slowest = 0;
  for (const RankWaitsRecord& each : ranks) {
    if (each.rank == rank) continue;
    const double own = each.data.seconds_per_step + each.compute.seconds_per_step + each.outside.seconds_per_step;
    slowest = std::max({slowest, own, each.supply_seconds_per_step.value_or(0)});
  }
  return slowest;
}

FilesPerSample files_per_sample(const ReadsRecord& reads, const LoaderRecord& loader) {
  if (reads.samples == 0) return {};
  const auto counted = static_cast<double>(reads.samples);
  const auto in_epoch = static_cast<double>(std::max<std::uint64_t>(std::min(reads.samples, loader.samples.value_or(reads.samples)), 1));
  return {static_cast<double>(reads.opens) / counted, static_cast<double>(reads.files) / in_epoch};
}

bool has_files_of_its_own(const FilesPerSample& files) {
  constexpr double nearly_one = 0.9;
  constexpr double least_held = 0.6;
  return files.opened >= nearly_one && files.held >= least_held;
}

bool is_one_file_each(const FilesPerSample& files) {
  constexpr double hardly_more = 1.1;
  return has_files_of_its_own(files) && std::max(files.opened, files.held) <= hardly_more;
}

bool others_leave_no_core(const RunRecord& run, double cores) {
  constexpr double least_others = 0.1;
  constexpr double nearly_all = 0.9;
  if (!run.others || run.others->cpu_fraction < least_others) return false;
  const double left = cores - run.cores_used.value_or(0) - run.others->cpu_fraction * cores;
  return left < std::min(1.0, (1 - nearly_all) * cores);
}

std::optional<RateRecord> ProfileResult::transfer_supply() const {
  if (!transfer || settings.gpu_share >= 1) return std::nullopt;
  RateRecord supply = *transfer;
  for (double* value : {&supply.samples_per_s, &supply.ci95_samples_per_s.low, &supply.ci95_samples_per_s.high})
    *value = dsanalyze::transfer_supply(*value, settings.gpu_share);
  return supply;
}

bool ProfileResult::finds(std::string_view code) const { return std::ranges::find(findings, code, &Finding::code) != findings.end(); }

const RunRecord* ProfileResult::run(const std::string& name) const {
  for (const RunRecord& each : runs) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::optional<double> ProfileResult::cache_fraction() const {
  double held = 0;
  int finished = 0;
  for (const RankRecord& rank : ranks) {
    if (rank.end != JobEnd::finished) continue;
    held += static_cast<double>(rank.held_bytes);
    ++finished;
  }
  if (finished > 0 && settings.cache == CacheKind::minio && dataset.subset_bytes > 0)
    return std::min(1.0, held / finished / static_cast<double>(dataset.subset_bytes));
  return fetch ? fetch->cache_fraction : std::nullopt;
}

std::optional<double> ProfileResult::shared_cpu() const {
  double sum = 0;
  int count = 0;
  for (const RunRecord& run : runs) {
    if (run.shared_windows == 0 || !run.others) continue;
    sum += run.others->cpu_fraction;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

double preparations_per_sample(const std::vector<JobRecord>& jobs, std::uint64_t prepared) {
  struct Sums {
    std::uint64_t jobs = 0, prepared = 0, samples = 0;
  };
  std::map<std::uint64_t, Sums> epochs;
  std::uint64_t trained = 0;
  for (const JobRecord& job : jobs) {
    trained = std::max(trained, job.samples);
    for (const JobEpochRecord& epoch : job.epochs) {
      Sums& sums = epochs[epoch.epoch];
      ++sums.jobs;
      sums.prepared += epoch.samples_prepared;
      sums.samples = std::max(sums.samples, epoch.samples);
    }
  }
  Sums whole;
  for (const auto& [number, sums] : epochs) {
    if (sums.jobs < jobs.size()) continue;
    whole.prepared += sums.prepared;
    whole.samples += sums.samples;
  }
  if (whole.prepared > 0 && whole.samples > 0) return static_cast<double>(whole.prepared) / static_cast<double>(whole.samples);
  return trained > 0 ? static_cast<double>(prepared) / static_cast<double>(trained) : 0;
}

std::string setup_text(const SearchSetup& setup) {
  const std::string apart = setup.partition == PartitionMode::none ? "" : fmt::format(" ({})", partition_mode_name(setup.partition));
  const std::string servers = setup.servers > 1 ? fmt::format("{} servers{} of ", setup.servers, apart) : "";
  const std::string cache =
      setup.cache_bytes > 0 ? fmt::format("{} cached ({})", format_share(setup.cache_fraction), format_bytes(setup.cache_bytes)) : "no cache";
  return fmt::format("{}{} cores, {} {}, {}, {} at {}", servers, format_number(setup.cores), setup.accelerators, setup.accelerator, cache,
                     setup.storage, format_bytes_per_second(setup.storage_bytes_per_s));
}

std::string format_cost(double cost, const std::string& currency) {
  constexpr int digits = 3;
  const int whole = cost > 0 ? static_cast<int>(std::floor(std::log10(cost))) + 1 : 1;
  // Hundredths are what prices are read in; small costs need more, large ones fewer.
  const int decimals = whole > digits ? 0 : std::clamp(digits - whole, 2, 6);
  return fmt::format("{} {}", whole > digits ? format_number(std::round(cost)) : fmt::format("{:.{}f}", cost, decimals), currency);
}

}  // namespace dsanalyze
