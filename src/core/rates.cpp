#include "rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/text/enum_names.hpp"

namespace dsanalyze {
namespace {

// Written so that NaN fails it.
void require_positive(const char* name, double value) {
  if (!(value > 0)) throw std::domain_error(fmt::format("{} must be above 0, found {}", name, value));
}

double seconds_per_sample(double x, double cache_rate, double storage_rate) { return x / cache_rate + (1 - x) / storage_rate; }

}  // namespace

double share_of_batch(double share, std::uint32_t samples) { return samples == 0 ? 0 : std::round(samples * share) / samples; }

double transfer_supply(double transfer, double gpu_share) {
  return gpu_share < 1 ? transfer / (1 - gpu_share) : std::numeric_limits<double>::infinity();
}

double PrepServers::cpu_beside_gpu() const { return cpu * std::max(1 - gpu * gpu_core_seconds / cores, 0.0); }

double PrepServers::best_share(double transfer) const {
  const auto delivered = [&](double share) { return std::min(with_share(share), transfer_supply(transfer, share)); };
  // Each of the three only rises or only falls with the share: the best is an end, or where two of them meet.
  std::vector<double> shares{0, 1};
  if (together() > 0) shares.push_back(gpu / together());
  if (std::isfinite(transfer)) {
    shares.push_back(gpu / (gpu + transfer));
    if (const double left = 1 - transfer / cpu; left > 0) shares.push_back(left / (left + transfer * gpu_core_seconds / cores));
  }
  std::ranges::sort(shares);
  constexpr double no_difference = 1e-9;
  double best = 0;
  for (const double share : shares)
    if (delivered(share) > delivered(best) * (1 + no_difference)) best = share;
  return best;
}

double PrepServers::with_share(double share) const {
  // At a rate r the GPU's part takes r * share * gpu_core_seconds of the cores, and the CPU's part r * (1 - share) / cpu of all of them.
  const double of_cores = (1 - share) / cpu + share * gpu_core_seconds / cores;
  const double by_cores = of_cores > 0 ? 1 / of_cores : std::numeric_limits<double>::infinity();
  const double by_gpu = share > 0 ? gpu / share : std::numeric_limits<double>::infinity();
  return std::min(by_cores, by_gpu);
}

void require_cached_fraction(double cached) {
  if (!(cached >= 0 && cached <= 1)) throw std::domain_error(fmt::format("a cached fraction lies between 0 and 1, found {}", cached));
}

std::string resource_name(Resource resource) { return enum_name(resource); }

double ingestion_rate(double iterations, double global_batch_size, double seconds) {
  require_positive("the number of iterations", iterations);
  require_positive("the global batch size", global_batch_size);
  require_positive("the time", seconds);
  return iterations * global_batch_size / seconds;
}

double fetch_seconds(double samples, double x, double cache_rate, double storage_rate) {
  require_positive("the number of samples", samples);
  require_cached_fraction(x);
  require_positive("the cache's rate C", cache_rate);
  require_positive("the storage's rate S", storage_rate);
  return samples * seconds_per_sample(x, cache_rate, storage_rate);
}

double effective_fetch_rate(double x, double cache_rate, double storage_rate) { return 1 / fetch_seconds(1, x, cache_rate, storage_rate); }

std::optional<double> cache_fraction_for(double target, double cache_rate, double storage_rate) {
  require_positive("the target rate", target);
  require_positive("the cache's rate C", cache_rate);
  require_positive("the storage's rate S", storage_rate);
  if (storage_rate >= target) return 0;
  if (cache_rate < target) return std::nullopt;
  return std::clamp((1 / storage_rate - 1 / target) / (1 / storage_rate - 1 / cache_rate), 0.0, 1.0);
}

BottleneckRule bottleneck(double fetch, double prep, std::optional<double> ingestion) {
  require_positive("F", fetch);
  require_positive("P", prep);
  if (ingestion) require_positive("G", *ingestion);
  struct Candidate {
    Resource resource;
    double rate;
  };
  // In this order a tie goes to the accelerator first, then to prep: without a stall, nothing else is to blame.
  std::array<Candidate, 3> candidates = {
      {{Resource::gpu, ingestion.value_or(std::numeric_limits<double>::infinity())}, {Resource::cpu, prep}, {Resource::io, fetch}}};
  const auto first = candidates.begin() + (ingestion ? 0 : 1);
  std::stable_sort(first, candidates.end(), [](const Candidate& a, const Candidate& b) { return a.rate < b.rate; });
  return {first[0].resource, first[1].resource, first[0].rate, first[1].rate};
}

StallShares stall_shares(double fetch, double prep, double ingestion) {
  require_positive("F", fetch);
  require_positive("P", prep);
  require_positive("G", ingestion);
  const double compute_time = 1 / ingestion;
  const double cached_time = 1 / std::min(prep, ingestion);
  const double full_time = 1 / std::min({fetch, prep, ingestion});
  if (!(full_time > 0)) throw std::domain_error("at least one of F, P and G must be finite");
  return {compute_time / full_time, (cached_time - compute_time) / full_time, (full_time - cached_time) / full_time};
}

double overlapped_seconds(std::span<const double> stages, double exponent) {
  if (stages.empty()) throw std::domain_error("a pipeline has at least one stage");
  for (const double seconds : stages) {
    if (!(seconds >= 0) || std::isinf(seconds))
      throw std::domain_error(fmt::format("a stage's time must be at least 0 and finite, found {}", seconds));
  }
  if (!(exponent >= 1)) throw std::domain_error(fmt::format("the exponent of overlap must be at least 1, found {}", exponent));
  const double longest = *std::ranges::max_element(stages);
  if (!(longest > 0)) throw std::domain_error("at least one stage must take time");
  if (std::isinf(exponent)) return longest;
  double sum = 0;  // relative to the longest, so that no power overflows
  for (const double seconds : stages) sum += std::pow(seconds / longest, exponent);
  return longest * std::pow(sum, 1 / exponent);
}

double ScalingLaw::effective_cores(double threads) const {
  if (threads > host_threads) return threads / host_threads * effective_cores(host_threads);
  return std::min(threads, physical_cores) + thread_share * std::max(0.0, threads - physical_cores);
}

double ScalingLaw::rate(double threads) const {
  const double n = effective_cores(threads);
  return one_core * n / std::max(1 + contention * (n - 1) + coherence * n * (n - 1), 1e-9);
}

double ScalingLaw::peak_threads() const {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (coherence <= 0) return infinite;
  const double n = std::max(1.0, std::sqrt(std::max(0.0, 1 - contention) / coherence));
  if (n <= physical_cores) return n;
  if (const double of_host = effective_cores(host_threads); n > of_host) return n / of_host * host_threads;
  return thread_share > 0 ? physical_cores + (n - physical_cores) / thread_share : infinite;
}

}  // namespace dsanalyze
