#include "verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dsanalyze/base/units.hpp"

namespace dsanalyze {
namespace {

double relative_half_width(const RateRecord& rate) {
  return rate.samples_per_s > 0 ? (rate.ci95_samples_per_s.high - rate.ci95_samples_per_s.low) / 2 / rate.samples_per_s : 0;
}

/// F and its interval: the relative errors of S and C, weighted by the share of the fetch time that each takes (Eq 3).
RateRecord effective_fetch(const ProfileResult& result, double x) {
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
  fetch.cache_fraction = x;
  fetch.method = "from S, C and the cache fraction (Eq 4)";
  return fetch;
}

struct Candidate {
  Resource resource;
  const RateRecord* rate;
  std::string letter;
};

std::string detail_of(const Candidate& lowest, const ProfileResult& result) {
  switch (lowest.resource) {
    case Resource::gpu:
      return "accelerator";
    case Resource::cpu:
      return "prep";
    case Resource::io:
      break;
  }
  const double x = result.fetch->cache_fraction.value_or(0);
  const double cache_time = result.cache ? x / result.cache->samples_per_s : 0;
  return cache_time > (1 - x) / result.storage->samples_per_s ? "cache" : "storage";
}

BottleneckRecord find_bottleneck(const ProfileResult& result) {
  std::vector<Candidate> candidates;
  if (result.fetch) candidates.push_back({Resource::io, &*result.fetch, "F"});
  if (result.prep) candidates.push_back({Resource::cpu, &*result.prep, "P"});
  if (result.ingestion) candidates.push_back({Resource::gpu, &*result.ingestion, "G"});
  std::ranges::sort(candidates, {}, [](const Candidate& c) { return c.rate->samples_per_s; });
  const Candidate& lowest = candidates[0];
  const Candidate& second = candidates[1];
  BottleneckRecord record;
  record.resource = resource_name(lowest.resource);
  record.detail = detail_of(lowest, result);
  record.next = resource_name(second.resource);
  const bool apart = !lowest.rate->ci95_samples_per_s.overlaps(second.rate->ci95_samples_per_s);
  record.confident = apart && result.trusted;
  const std::string rates = fmt::format("{} [{}] against {} [{}] samples/s", format_number(lowest.rate->samples_per_s), lowest.letter,
                                        format_number(second.rate->samples_per_s), second.letter);
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

}  // namespace

void conclude(ProfileResult& result, double cache_fraction) {
  if (result.storage && result.storage->samples_per_s > 0) result.fetch = effective_fetch(result, cache_fraction);
  if (!result.fetch || !result.prep || result.prep->samples_per_s <= 0) return;
  result.bottleneck = find_bottleneck(result);

  const RunRecord* cached = result.run("cached");
  const RunRecord* full = result.run("full");
  if (result.ingestion && cached != nullptr && full != nullptr && cached->samples_per_s > 0 && full->samples_per_s > 0) {
    // Differences of time a sample between the runs [DS-Analyzer, section 3.2]; errors of independent runs add in squares.
    const double compute = 1 / result.ingestion->samples_per_s;
    const double from_memory = std::max(compute, 1 / cached->samples_per_s);
    const double everything = std::max(from_memory, 1 / full->samples_per_s);
    const double compute_error = compute * relative_half_width(*result.ingestion);
    const double prep_error = relative_half_width(*result.prep) / cached->samples_per_s;
    const double fetch_error = relative_half_width(*result.storage) / full->samples_per_s;
    const auto samples = static_cast<double>(result.dataset.samples);
    result.stalls = ProfileResult::Stalls{stall(compute, everything, compute_error, samples),
                                          stall(from_memory - compute, everything, std::hypot(compute_error, prep_error), samples),
                                          stall(everything - from_memory, everything, std::hypot(prep_error, fetch_error), samples)};
  }
  if (result.settings.observed_rate) {
    double feed = std::min(result.fetch->samples_per_s, result.prep->samples_per_s);
    if (result.ingestion) feed = std::min(feed, result.ingestion->samples_per_s);
    result.observed = ProfileResult::Observed{*result.settings.observed_rate, std::max(0.0, 1 - *result.settings.observed_rate / feed)};
  }
}

}  // namespace dsanalyze
