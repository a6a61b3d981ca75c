#include "verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/text/units.hpp"
#include "core/partition/data_parallel.hpp"
#include "observer.hpp"

namespace dsanalyze {
namespace {

/// Of the ranks after the first epoch.
std::optional<FetchSources> sources_of_ranks(const ProfileResult& result) {
  double all = 0;
  double cache = 0;
  double network = 0;
  for (const RankRecord& rank : result.ranks) {
    for (const RankEpochRecord& epoch : rank.epochs) {
      if (epoch.epoch == 0) continue;
      all += static_cast<double>(epoch.samples);
      cache += static_cast<double>(epoch.cache_hits);
      network += static_cast<double>(epoch.peer_hits);
    }
  }
  if (all == 0) return std::nullopt;
  return FetchSources{cache / all, network / all, std::max(0.0, 1 - (cache + network) / all)};
}

/// F of one of several servers, by where its samples came from; storage that all read from is each one's share of it.
RateRecord effective_fetch_of_rank(const ProfileResult& result, const FetchSources& from) {
  const double sharers = result.settings.storage_scope == StorageScope::shared ? result.settings.world : 1;
  const auto rate_of = [](const std::optional<RateRecord>& rate) { return rate && rate->samples_per_s > 0 ? rate->samples_per_s : INFINITY; };
  const SourceSeconds seconds = source_seconds(from, rate_of(result.cache), rate_of(result.network), result.storage->samples_per_s / sharers);
  RateRecord fetch;
  fetch.samples_per_s = 1 / std::max(seconds.fetch(), 1e-12);
  fetch.bytes_per_s = fetch.samples_per_s * result.dataset.mean_sample_bytes;
  const RateRecord& slower = seconds.network > seconds.storage ? *result.network : *result.storage;
  const double error = std::hypot(std::max(seconds.network, seconds.storage) * fetch.samples_per_s * relative_error(slower),
                                  seconds.cache * fetch.samples_per_s * (result.cache ? relative_error(*result.cache) : 0));
  fetch.ci95_samples_per_s = {fetch.samples_per_s * std::max(0.0, 1 - error), fetch.samples_per_s * (1 + error)};
  fetch.windows = result.storage->windows;
  fetch.cache_fraction = from.cache;
  fetch.method = fmt::format("of one server: {:.1f} % of its samples from its cache, {:.1f} % from others', {:.1f} % from storage", from.cache * 100,
                             from.network * 100, from.storage * 100);
  return fetch;
}

/// F and its interval: the relative errors of S and C, weighted by the share of the fetch time that each takes (Eq 3).
RateRecord effective_fetch(const ProfileResult& result, const CacheShare& cached) {
  if (const auto sources = sources_of_ranks(result)) return effective_fetch_of_rank(result, *sources);
  const double x = cached.storage_time;
  const RateRecord& storage = *result.storage;
  const double cache_rate = result.cache && result.cache->samples_per_s > 0 ? result.cache->samples_per_s : INFINITY;
  RateRecord fetch;
  fetch.samples_per_s = effective_fetch_rate(x, cache_rate, storage.samples_per_s);
  fetch.bytes_per_s = fetch.samples_per_s * result.dataset.mean_sample_bytes;
  const double storage_time = (1 - x) / storage.samples_per_s * fetch.samples_per_s;
  const double cache_time = 1 - storage_time;
  const double error = std::hypot(storage_time * relative_error(storage), cache_time * (result.cache ? relative_error(*result.cache) : 0));
  fetch.ci95_samples_per_s = {fetch.samples_per_s * std::max(0.0, 1 - error), fetch.samples_per_s * (1 + error)};
  fetch.windows = storage.windows;
  fetch.cache_fraction = cached.bytes;
  fetch.method = cached.bytes == cached.storage_time
                     ? "from S, C and the cache fraction (Eq 4)"
                     : fmt::format("from S, C and the share of storage's time that cost-aware admission saves, {:.1f} % (Eq 4)", x * 100);
  return fetch;
}

/// How many jobs a sample was given to that was prepared for jobs that draw dependently, mean.
double given_to_jobs(const ProfileResult& result) {
  if (!result.sharing || !result.sharing->dependent || result.sharing->dependent->samples_prepared == 0) return 1;
  const ShareDependentRecord& dependent = *result.sharing->dependent;
  return std::max(1.0, static_cast<double>(dependent.samples_drawn) / static_cast<double>(dependent.samples_prepared));
}

/// How many samples of prep and storage the jobs want for each that a job of speed 1 trains: coordinated jobs are one, of dependent ones it is the
/// samples that all of them want, over how many of these a prepared sample was given to.
double separate_jobs(const ProfileResult& result) {
  switch (result.settings.share) {
    case JobSharing::none:
      return std::max(result.settings.jobs, 1);
    case JobSharing::dependent:
      return sum_of_job_speeds(result.settings) / given_to_jobs(result);
    default:
      return 1;
  }
}

/// Copies to the GPUs, which go on beside their steps, take longer than these.
bool limited_by_transfer(const ProfileResult& result) {
  const auto supply = result.transfer_supply();
  return supply && result.ingestion && supply->samples_per_s < result.ingestion->samples_per_s;
}

/// What the accelerators of all jobs want of the server, or what can be copied to them where that is less.
std::optional<RateRecord> wanted_of_server(const ProfileResult& result) {
  if (!result.ingestion) return std::nullopt;
  RateRecord wanted = limited_by_transfer(result) ? *result.transfer_supply() : *result.ingestion;
  const double jobs = separate_jobs(result);
  wanted.samples_per_s *= jobs;
  wanted.ci95_samples_per_s.low *= jobs;
  wanted.ci95_samples_per_s.high *= jobs;
  return wanted;
}

/// The full run as one server sees it: coordinated jobs are served by one sweep, at the rate of one of them, and a sample that was prepared for
/// several dependent ones counts once; of several servers, the mean.
std::optional<RunRecord> full_of_server(const ProfileResult& result) {
  const RunRecord* full = result.run("full");
  if (full == nullptr || full->samples_per_s <= 0) return std::nullopt;
  RunRecord swept = *full;
  if (result.ranks.empty() && result.settings.share == JobSharing::none) return swept;
  if (result.settings.share == JobSharing::dependent) {
    const double given = given_to_jobs(result);
    swept.samples_per_s /= given;
    swept.ci95_samples_per_s.low /= given;
    swept.ci95_samples_per_s.high /= given;
    return swept;
  }
  const auto worked = std::ranges::count_if(result.jobs, [](const JobRecord& job) { return job.samples_per_s > 0; });
  const auto parts = !result.ranks.empty() ? static_cast<std::ptrdiff_t>(result.ranks.size()) : worked;
  const auto jobs = static_cast<double>(parts > 0 ? parts : std::max(result.settings.jobs, 1));
  swept.samples_per_s /= jobs;
  swept.ci95_samples_per_s.low /= jobs;
  swept.ci95_samples_per_s.high /= jobs;
  return swept;
}

const RateRecord& rate_of(Resource resource, const ProfileResult& result, const std::optional<RateRecord>& wanted) {
  switch (resource) {
    case Resource::gpu:
      return *wanted;
    case Resource::cpu:
      return *result.prep;
    case Resource::io:
      break;
  }
  return *result.fetch;
}

/// H, or what it makes of batches of which only a part is copied.
std::string letter_of_supply(const ProfileResult& result) {
  const double copied = 1 - result.settings.gpu_share;
  return copied < 1 ? fmt::format("H / {:.3g}", copied) : "H";
}

std::string letter_of(Resource resource, const ProfileResult& result) {
  switch (resource) {
    case Resource::gpu: {
      const double jobs = separate_jobs(result);
      if (limited_by_transfer(result)) return letter_of_supply(result);
      return jobs == 1 ? "G" : fmt::format("{:.3g} x G", jobs);
    }
    case Resource::cpu:
      return "P";
    case Resource::io:
      break;
  }
  return "F";
}

std::string detail_of(Resource resource, const ProfileResult& result) {
  if (resource == Resource::gpu) return limited_by_transfer(result) ? "transfer" : "accelerator";
  if (resource == Resource::cpu) return "prep";
  if (const auto from = sources_of_ranks(result);
      from && result.network && from->network / result.network->samples_per_s > from->storage / result.storage->samples_per_s)
    return "network";
  const double x = result.fetch->cache_fraction.value_or(0);
  const double cache_time = result.cache ? x / result.cache->samples_per_s : 0;
  return cache_time > (1 - x) / result.storage->samples_per_s ? "cache" : "storage";
}

BottleneckRule rule_of(const ProfileResult& result, const std::optional<RateRecord>& wanted) {
  return bottleneck(result.fetch->samples_per_s, result.prep->samples_per_s, wanted ? std::optional<double>(wanted->samples_per_s) : std::nullopt);
}

/// Of the other resources those whose rate may be as low as the lowest, the lower one first.
std::vector<Resource> rivals_of(const BottleneckRule& rule, const ProfileResult& result, const std::optional<RateRecord>& wanted) {
  const Interval lowest = known_interval(rate_of(rule.resource, result, wanted));
  std::vector<Resource> rivals;
  for (const Resource resource : {Resource::gpu, Resource::cpu, Resource::io}) {
    if (resource == rule.resource || (resource == Resource::gpu && !wanted)) continue;
    if (lowest.overlaps(known_interval(rate_of(resource, result, wanted)))) rivals.push_back(resource);
  }
  std::ranges::stable_sort(rivals, {}, [&](Resource resource) { return rate_of(resource, result, wanted).samples_per_s; });
  return rivals;
}

/// The letters of the rates that one window alone stands for: nothing is sure of them, however far they lie from the others.
std::vector<std::string> of_one_window(const ProfileResult& result, const std::optional<RateRecord>& wanted) {
  std::vector<std::string> letters;
  for (const Resource resource : {Resource::gpu, Resource::cpu, Resource::io})
    if ((resource != Resource::gpu || wanted) && rate_of(resource, result, wanted).windows == 1) letters.push_back(letter_of(resource, result));
  return letters;
}

BottleneckRecord find_bottleneck(const ProfileResult& result, const std::optional<RateRecord>& wanted) {
  const BottleneckRule rule = rule_of(result, wanted);
  const std::vector<Resource> rivals = rivals_of(rule, result, wanted);
  const bool apart = rivals.empty();
  const Resource next = apart ? rule.next : rivals.front();
  const RateRecord& lowest = rate_of(rule.resource, result, wanted);
  const RateRecord& other = rate_of(next, result, wanted);
  BottleneckRecord record;
  record.resource = resource_name(rule.resource);
  record.detail = detail_of(rule.resource, result);
  record.next = resource_name(next);
  const std::vector<std::string> unknown = of_one_window(result, wanted);
  record.confident = apart && unknown.empty() && result.trusted;
  const std::string rates = fmt::format("{} [{}] against {} [{}] samples/s", format_number(lowest.samples_per_s), letter_of(rule.resource, result),
                                        format_number(other.samples_per_s), letter_of(next, result));
  if (!result.trusted) {
    record.reason = fmt::format("{}, but the measurement could not prove itself: see the findings", rates);
  } else if (!unknown.empty()) {
    record.reason = fmt::format("{}, but {} of one window, which shows no scatter: profile longer (--time-budget)", rates,
                                fmt::format("{} {}", fmt::join(unknown, " and "), unknown.size() == 1 ? "is" : "are"));
  } else if (const auto supply = result.transfer_supply();
             rule.resource == Resource::gpu && supply && known_interval(*supply).overlaps(known_interval(*result.ingestion))) {
    record.confident = false;
    record.reason = fmt::format("inconclusive whether copies or training: {} [{}] and {} [G] samples/s, and their 95 % intervals overlap",
                                format_number(supply->samples_per_s), letter_of_supply(result), format_number(result.ingestion->samples_per_s));
  } else if (!apart) {
    record.reason = fmt::format("inconclusive: {}, and their 95 % intervals overlap", rates);
  } else {
    record.reason = fmt::format("{}; their 95 % intervals do not overlap", rates);
  }
  return record;
}

/// What the full run reached must be what the rates promise; where it is not, the closed form lacks something that matters here.
void compare_with_closed_form(ProfileResult& result, const std::optional<RateRecord>& wanted) {
  const std::optional<RunRecord> full = full_of_server(result);
  if (!full) return;
  const double promised = rule_of(result, wanted).samples_per_s;
  constexpr double most_difference = 0.10;
  if (std::abs(full->samples_per_s / promised - 1) <= most_difference) return;
  result.findings.push_back(
      {"closed-form-differs", Finding::Severity::warning,
       fmt::format("the full run reached {} samples/s{}; the measured rates predict {}: what runs at once here disturbs each other ({} CPU that prep "
                   "needs), or two rates are close to each other. Believe the run; predictions are off by as much.",
                   format_number(full->samples_per_s),
                   result.settings.share == JobSharing::none        ? ""
                   : result.settings.share == JobSharing::dependent ? " that were prepared, each for one or more jobs"
                                                                    : " for each of the jobs that share",
                   format_number(promised), result.host.accelerator_shares_cores ? "training and reading cost" : "reading costs")});
}

}  // namespace

void conclude(ProfileResult& result, const CacheShare& cached_share) {
  const bool only_cache_unmeasured = cached_share.bytes >= 1 && !result.cache;  // F would be C alone
  if (result.storage && result.storage->samples_per_s > 0 && !only_cache_unmeasured) result.fetch = effective_fetch(result, cached_share);
  if (!result.fetch || !result.prep || result.prep->samples_per_s <= 0) return;
  const std::optional<RateRecord> wanted = wanted_of_server(result);
  result.bottleneck = find_bottleneck(result, wanted);
  compare_with_closed_form(result, wanted);

  const RunRecord* cached = result.run("cached");
  const std::optional<RunRecord> full = full_of_server(result);
  // The run cached knows one job alone, so that it cannot tell what jobs that share nothing, or draw for themselves, wait for;
  // jobs[].stall_fraction says how much.
  const bool comparable = separate_jobs(result) == 1 && result.settings.share != JobSharing::dependent;
  if (comparable && result.ingestion && cached != nullptr && full && cached->samples_per_s > 0) {
    const std::vector<StallRecord> stalls = stalls_of({*wanted, rate_of(*cached), rate_of(*full)}, static_cast<double>(result.dataset.samples));
    result.stalls = ProfileResult::Stalls{stalls[0], stalls[1], stalls[2]};
    if (limited_by_transfer(result))
      result.findings.push_back(
          {"compute-holds-copies", Finding::Severity::info,
           "batches take longer to be copied to the GPU [H] than to be trained on [G]: what the epoch has under compute is their "
           "copies."});
    find_interference(result, *full, rule_of(result, wanted));
  }
  if (result.settings.observed_rate) {
    double feed = std::min(result.fetch->samples_per_s, result.prep->samples_per_s) / separate_jobs(result);
    if (result.ingestion) feed = std::min(feed, result.ingestion->samples_per_s);
    result.observed = ProfileResult::Observed{*result.settings.observed_rate, std::max(0.0, 1 - *result.settings.observed_rate / feed)};
  }
}

namespace {

/// From the fastest run on, what each adds to the time a sample of the one before, as shares of the last one's.
std::vector<double> parts_of(const std::vector<double>& rates) {
  std::vector<double> seconds;
  seconds.reserve(rates.size());
  for (const double rate : rates) seconds.push_back(std::max(seconds.empty() ? 0 : seconds.back(), 1 / rate));
  std::vector<double> parts;
  for (std::size_t i = 0; i < seconds.size(); ++i) parts.push_back((seconds[i] - (i > 0 ? seconds[i - 1] : 0)) / seconds.back());
  return parts;
}

}  // namespace

/// Each rate is moved to either end of its interval, alone; what that changes of a share adds in squares, upwards and downwards apart. So the error
/// of every run that a quotient holds counts, that of the last run below the line too, and at the edge of a stall an interval is lopsided. A rate's
/// lower end is that of its time a sample, which is as uncertain as the rate: an interval of a few windows may reach 0.
std::vector<StallRecord> stalls_of(const std::vector<RateRecord>& runs, double samples) {
  std::vector<double> rates;
  rates.reserve(runs.size());
  for (const RateRecord& run : runs) rates.push_back(run.samples_per_s);
  const std::vector<double> parts = parts_of(rates);
  std::vector<double> below(parts.size());
  std::vector<double> above(parts.size());
  for (std::size_t moved = 0; moved < runs.size(); ++moved) {
    constexpr double slowest = 1e-6;  // of a rate of one window, of which nothing is known
    const Interval interval = known_interval(runs[moved]);
    std::vector<double> low = rates;
    std::vector<double> high = rates;
    low[moved] = runs[moved].windows == 1 ? slowest * rates[moved] : rates[moved] / (2 - interval.low / rates[moved]);
    high[moved] = interval.high;
    const std::vector<double> at_low = parts_of(low);
    const std::vector<double> at_high = parts_of(high);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      below[i] = std::hypot(below[i], parts[i] - std::min({parts[i], at_low[i], at_high[i]}));
      above[i] = std::hypot(above[i], std::max({parts[i], at_low[i], at_high[i]}) - parts[i]);
    }
  }
  const double epoch_seconds = samples / rates.front() / parts.front();
  std::vector<StallRecord> stalls;
  for (std::size_t i = 0; i < parts.size(); ++i)
    stalls.push_back({parts[i] * epoch_seconds, parts[i], {std::max(parts[i] - below[i], 0.0), std::min(parts[i] + above[i], 1.0)}});
  return stalls;
}

RateRecord rate_of(const RunRecord& run) {
  RateRecord rate;
  rate.samples_per_s = run.samples_per_s;
  rate.ci95_samples_per_s = run.ci95_samples_per_s;
  rate.windows = run.windows;
  return rate;
}

}  // namespace dsanalyze
