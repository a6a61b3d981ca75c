#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dsanalyze {

// The published forms of one data-parallel job on p servers [Yang-Cong, sections IV and V], which models are compared with. Rates in samples/s. All
// functions: pure; std::domain_error for a number that is not one, infinite where that makes no sense, zero or negative, and for fractions outside
// [0, 1].

/// Symbols of [Yang-Cong].
struct DataParallel {
  double samples = 0;          ///< D: the dataset
  double servers = 1;          ///< p
  double training = 0;         ///< V: what one server trains on
  double storage = 0;          ///< R: the storage system, all servers together
  double remote_caches = 0;    ///< R_c: data from others' caches, all servers together
  double prep = 0;             ///< U: what one server prepares
  double cached_fraction = 0;  ///< alpha: of the dataset, in all caches together
};

namespace yang_cong {

inline double positive(const char* name, double value) {
  if (!(value > 0) || std::isinf(value)) throw std::domain_error(fmt::format("{} must be above 0 and finite, found {}", name, value));
  return value;
}

inline double at_least_one(const char* name, double value) {
  if (!(value >= 1) || std::isinf(value)) throw std::domain_error(fmt::format("{} must be at least 1, found {}", name, value));
  return value;
}

inline double fraction(const char* name, double value) {
  if (!(value >= 0 && value <= 1)) throw std::domain_error(fmt::format("{} must lie between 0 and 1, found {}", name, value));
  return value;
}

inline double samples(const DataParallel& job) { return positive("the number of samples D", job.samples); }
inline double servers(const DataParallel& job) { return at_least_one("the number of servers p", job.servers); }
inline double storage(const DataParallel& job) { return positive("the storage's rate R", job.storage); }

/// The sample I/O time with fraction alpha cached, of which so much comes over the network.
inline double cached_seconds(const DataParallel& job, double moved) {
  const double alpha = fraction("the cached fraction alpha", job.cached_fraction);
  const double from_storage = (1 - alpha) * samples(job) / storage(job);
  if (moved == 0) return from_storage;
  return from_storage + alpha * samples(job) / positive("the remote caches' rate R_c", job.remote_caches) * moved;
}

}  // namespace yang_cong

/// D / (p V)  [Yang-Cong, Eq 1].
inline double training_seconds(const DataParallel& job) {
  return yang_cong::samples(job) / (yang_cong::servers(job) * yang_cong::positive("the training rate V", job.training));
}
/// D / R  [Yang-Cong, Eq 2]: no caches. It does not fall with p, the plateau of the regular loader.
inline double storage_read_seconds(const DataParallel& job) { return yang_cong::samples(job) / yang_cong::storage(job); }
/// D / (p U)  [Yang-Cong, Eq 3].
inline double prep_seconds(const DataParallel& job) {
  return yang_cong::samples(job) / (yang_cong::servers(job) * yang_cong::positive("the prep rate U", job.prep));
}
/// D / R + D / (p U)  [Yang-Cong, Eq 4], as published: serial, I/O and prep one after the other. A loader that overlaps them takes the longer of the
/// two alone, as the models do.
inline double serial_loading_seconds(const DataParallel& job) { return storage_read_seconds(job) + prep_seconds(job); }
/// R / V  [Yang-Cong, Eq 5]: up to so many servers training takes longer than reading.
inline double servers_until_storage_binds(const DataParallel& job) {
  return yang_cong::storage(job) / yang_cong::positive("the training rate V", job.training);
}
/// The larger of Eq 1 and Eq 2  [Yang-Cong, Eq 6].
inline double true_cost_seconds(const DataParallel& job) { return std::max(training_seconds(job), storage_read_seconds(job)); }
/// (1 - alpha) D / R + alpha D / R_c (p - 1) / p  [Yang-Cong, Eq 7]: distributed caching.
inline double distributed_cache_seconds(const DataParallel& job) {
  return yang_cong::cached_seconds(job, (yang_cong::servers(job) - 1) / job.servers);
}
/// (1 - alpha) D / R + alpha D / R_b beta  [Yang-Cong, Eq 8] with R_b = R_c: locality-aware loading. Requires 0 <= beta <= 1.
inline double locality_seconds(const DataParallel& job, double balance_traffic) {
  return yang_cong::cached_seconds(job, yang_cong::fraction("the balance traffic beta", balance_traffic));
}

}  // namespace dsanalyze
