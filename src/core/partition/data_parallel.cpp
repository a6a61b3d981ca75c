#include "data_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace dsanalyze {
namespace {

double positive(const char* name, double value) {
  if (!(value > 0) || std::isinf(value)) throw std::domain_error(fmt::format("{} must be above 0 and finite, found {}", name, value));
  return value;
}

double at_least_one(const char* name, double value) {
  if (!(value >= 1) || std::isinf(value)) throw std::domain_error(fmt::format("{} must be at least 1, found {}", name, value));
  return value;
}

double fraction(const char* name, double value) {
  if (!(value >= 0 && value <= 1)) throw std::domain_error(fmt::format("{} must lie between 0 and 1, found {}", name, value));
  return value;
}

}  // namespace

double mean_balance_traffic(double servers, double local_batch, double samples, double held) {
  at_least_one("the number of servers p", servers);
  at_least_one("the local batch b", local_batch);
  positive("the number of samples D", samples);
  if (servers * local_batch > samples)
    throw std::domain_error(fmt::format("a global batch of {} x {} samples is larger than the dataset of {}", servers, local_batch, samples));
  fraction("the held share", held);
  if (servers == 1) return 0;
  const double deviation = std::sqrt(local_batch * held * (1 - held / servers) * (1 - servers * local_batch / samples));
  if (deviation == 0) return 0;
  const double spare = local_batch * (1 - held);
  const double distance = spare / deviation;
  const double density = std::exp(-distance * distance / 2) / std::sqrt(2 * std::numbers::pi);
  const double above = std::erfc(distance / std::numbers::sqrt2) / 2;
  return std::max(0.0, deviation * density - spare * above) / local_batch;
}

double SourceSeconds::fetch() const { return cache + std::max(network, storage); }

FetchPart SourceSeconds::longest() const {
  if (cache > std::max(network, storage)) return FetchPart::cache;
  return network > storage ? FetchPart::network : FetchPart::storage;
}

SourceSeconds source_seconds(const FetchSources& shares, double cache_rate, double network_rate, double storage_rate) {
  return {shares.cache / cache_rate, shares.network / network_rate, shares.storage / storage_rate};
}

}  // namespace dsanalyze
