#include "verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "dsanalyze/base/units.hpp"

namespace dsanalyze {
namespace {

double relative_half_width(const RateRecord& rate) {
  return rate.samples_per_s > 0 ? (rate.ci95_samples_per_s.high - rate.ci95_samples_per_s.low) / 2 / rate.samples_per_s : 0;
}

/// Of a run's time a sample.
double half_width_seconds(const RunRecord& run) {
  return (run.ci95_samples_per_s.high - run.ci95_samples_per_s.low) / 2 / run.samples_per_s / run.samples_per_s;
}

/// F and its interval: the relative errors of S and C, weighted by the share of the fetch time that each takes (Eq 3).
RateRecord effective_fetch(const ProfileResult& result, const CacheShare& cached) {
  const double x = cached.storage_time;
  const RateRecord& storage = *result.storage;
  const double cache_rate = result.cache && result.cache->samples_per_s > 0 ? result.cache->samples_per_s : INFINITY;
  RateRecord fetch;
  fetch.samples_per_s = effective_fetch_rate(x, cache_rate, storage.samples_per_s);
  fetch.bytes_per_s = fetch.samples_per_s * result.dataset.mean_sample_bytes;
  const double storage_time = (1 - x) / storage.samples_per_s * fetch.samples_per_s;
  const double cache_time = 1 - storage_time;
  const double error = std::hypot(storage_time * relative_half_width(storage), cache_time * (result.cache ? relative_half_width(*result.cache) : 0));
  fetch.ci95_samples_per_s = {fetch.samples_per_s * std::max(0.0, 1 - error), fetch.samples_per_s * (1 + error)};
  fetch.windows = storage.windows;
  fetch.cache_fraction = cached.bytes;
  fetch.method = cached.bytes == cached.storage_time
                     ? "from S, C and the cache fraction (Eq 4)"
                     : fmt::format("from S, C and the share of storage's time that cost-aware admission saves, {:.1f} % (Eq 4)", x * 100);
  return fetch;
}

const RateRecord& rate_of(Resource resource, const ProfileResult& result) {
  switch (resource) {
    case Resource::gpu:
      return *result.ingestion;
    case Resource::cpu:
      return *result.prep;
    case Resource::io:
      break;
  }
  return *result.fetch;
}

std::string letter_of(Resource resource) {
  switch (resource) {
    case Resource::gpu:
      return "G";
    case Resource::cpu:
      return "P";
    case Resource::io:
      break;
  }
  return "F";
}

std::string detail_of(Resource resource, const ProfileResult& result) {
  if (resource == Resource::gpu) return "accelerator";
  if (resource == Resource::cpu) return "prep";
  const double x = result.fetch->cache_fraction.value_or(0);
  const double cache_time = result.cache ? x / result.cache->samples_per_s : 0;
  return cache_time > (1 - x) / result.storage->samples_per_s ? "cache" : "storage";
}

BottleneckRecord find_bottleneck(const ProfileResult& result) {
  const BottleneckRule rule = bottleneck(result.fetch->samples_per_s, result.prep->samples_per_s,
                                         result.ingestion ? std::optional<double>(result.ingestion->samples_per_s) : std::nullopt);
  const RateRecord& lowest = rate_of(rule.resource, result);
  const RateRecord& second = rate_of(rule.next, result);
  BottleneckRecord record;
  record.resource = resource_name(rule.resource);
  record.detail = detail_of(rule.resource, result);
  record.next = resource_name(rule.next);
  const bool apart = !lowest.ci95_samples_per_s.overlaps(second.ci95_samples_per_s);
  record.confident = apart && result.trusted;
  const std::string rates = fmt::format("{} [{}] against {} [{}] samples/s", format_number(lowest.samples_per_s), letter_of(rule.resource),
                                        format_number(second.samples_per_s), letter_of(rule.next));
  if (!result.trusted) {
    record.reason = fmt::format("{}, but the measurement could not prove itself: see the findings", rates);
  } else if (!apart) {
    record.reason = fmt::format("too close to call: {}, and their 95 % intervals overlap", rates);
  } else {
    record.reason = fmt::format("{}; their 95 % intervals do not overlap", rates);
  }
  return record;
}

StallRecord stall(double seconds_per_sample, double full_seconds_per_sample, double error_seconds, double samples) {
  StallRecord record;
  const double positive = std::max(0.0, seconds_per_sample);
  record.fraction = positive / full_seconds_per_sample;
  record.seconds_per_epoch = positive * samples;
  const double error = error_seconds / full_seconds_per_sample;
  record.ci95_fraction = {std::clamp(record.fraction - error, 0.0, 1.0), std::clamp(record.fraction + error, 0.0, 1.0)};
  return record;
}

/// What the full run reached must be what the rates promise; where it is not, the closed form lacks something that matters here.
void compare_with_closed_form(ProfileResult& result) {
  const RunRecord* full = result.run("full");
  if (full == nullptr || full->samples_per_s <= 0) return;
  const double promised = bottleneck(result.fetch->samples_per_s, result.prep->samples_per_s,
                                     result.ingestion ? std::optional<double>(result.ingestion->samples_per_s) : std::nullopt)
                              .samples_per_s;
  constexpr double most_difference = 0.10;
  if (std::abs(full->samples_per_s / promised - 1) <= most_difference) return;
  result.findings.push_back({"closed-form-differs", Finding::Severity::warning,
                             fmt::format("run \"full\" reached {} samples/s where the rates promise {}: what runs at once here disturbs each other "
                                         "({} CPU that prep needs), "
                                         "or two rates are close to each other. Believe the run; predictions are off by as much.",
                                         format_number(full->samples_per_s), format_number(promised),
                                         result.host.accelerator_shares_cores ? "training and reading cost" : "reading costs")});
}

}  // namespace

void conclude(ProfileResult& result, const CacheShare& cached_share) {
  const bool only_cache_unmeasured = cached_share.bytes >= 1 && !result.cache;  // F would be C alone
  if (result.storage && result.storage->samples_per_s > 0 && !only_cache_unmeasured) result.fetch = effective_fetch(result, cached_share);
  if (!result.fetch || !result.prep || result.prep->samples_per_s <= 0) return;
  result.bottleneck = find_bottleneck(result);
  compare_with_closed_form(result);

  const RunRecord* cached = result.run("cached");
  const RunRecord* full = result.run("full");
  if (result.ingestion && cached != nullptr && full != nullptr && cached->samples_per_s > 0 && full->samples_per_s > 0) {
    // Differences of time a sample between the runs [DS-Analyzer, section 3.2]; errors of independent runs add in squares.
    const double compute = 1 / result.ingestion->samples_per_s;
    const double from_memory = std::max(compute, 1 / cached->samples_per_s);
    const double everything = std::max(from_memory, 1 / full->samples_per_s);
    const double compute_error = compute * relative_half_width(*result.ingestion);
    const double cached_error = half_width_seconds(*cached);
    const double full_error = half_width_seconds(*full);
    const auto samples = static_cast<double>(result.dataset.samples);
    result.stalls = ProfileResult::Stalls{stall(compute, everything, compute_error, samples),
                                          stall(from_memory - compute, everything, std::hypot(compute_error, cached_error), samples),
                                          stall(everything - from_memory, everything, std::hypot(cached_error, full_error), samples)};
  }
  if (result.settings.observed_rate) {
    double feed = std::min(result.fetch->samples_per_s, result.prep->samples_per_s);
    if (result.ingestion) feed = std::min(feed, result.ingestion->samples_per_s);
    result.observed = ProfileResult::Observed{*result.settings.observed_rate, std::max(0.0, 1 - *result.settings.observed_rate / feed)};
  }
}

}  // namespace dsanalyze
