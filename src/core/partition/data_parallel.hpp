#pragma once

namespace dsanalyze {

// One data-parallel job on p servers [Yang-Cong, sections IV and V]. Rates in samples/s. All functions: pure; std::domain_error for a number that is
// not one, infinite where that makes no sense, zero or negative, and for fractions outside [0, 1].

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

/// D / (p V)  [Yang-Cong, Eq 1].
double training_seconds(const DataParallel& job);
/// D / R  [Yang-Cong, Eq 2]: no caches. It does not fall with p, the plateau of the regular loader.
double storage_read_seconds(const DataParallel& job);
/// D / (p U)  [Yang-Cong, Eq 3].
double prep_seconds(const DataParallel& job);
/// D / R + D / (p U)  [Yang-Cong, Eq 4], as published: serial, I/O and prep one after the other. A loader that overlaps them takes the longer of the
/// two alone, as the models do.
double serial_loading_seconds(const DataParallel& job);
/// R / V  [Yang-Cong, Eq 5]: up to so many servers training takes longer than reading.
double servers_until_storage_binds(const DataParallel& job);
/// The larger of Eq 1 and Eq 2  [Yang-Cong, Eq 6].
double true_cost_seconds(const DataParallel& job);
/// (1 - alpha) D / R + alpha D / R_c (p - 1) / p  [Yang-Cong, Eq 7]: distributed caching.
double distributed_cache_seconds(const DataParallel& job);
/// (1 - alpha) D / R + alpha D / R_b beta  [Yang-Cong, Eq 8] with R_b = R_c: locality-aware loading. Requires 0 <= beta <= 1.
double locality_seconds(const DataParallel& job, double balance_traffic);

/// The mean share of a global batch that moves between servers to balance it, beta [Yang-Cong, section V-C, Fig 6], when all of them together hold
/// the share `held` of D samples, each as much as the others: a server finds a hypergeometric number of the p b samples of a global batch in its
/// cache, with mean b held and variance b held (1 - held / p) (1 - p b / D). What it finds beyond b moves; what nobody holds fills up those that
/// found less. By the normal approximation that is, of b, (deviation phi(z) - b (1 - held) Q(z)) / b with z = b (1 - held) / deviation, and where
/// everything is held sqrt((1 - 1/p) (1 - p b / D) / (2 pi b)). 0 for one server. Requires p >= 1, b >= 1 (local batch, a server's), p b <= D, 0 <=
/// held <= 1; throws std::domain_error.
double mean_balance_traffic(double servers, double local_batch, double samples, double held);

/// Where the samples of one of several servers come from: shares that add up to 1.
struct FetchSources {
  double cache = 0;    ///< its own
  double network = 0;  ///< others' caches
  double storage = 0;
};

enum class FetchPart { storage, cache, network };
/// "storage", "cache", "network"
const char* fetch_part_name(FetchPart part);

/// Seconds that each source has to do with the average sample of a server.
struct SourceSeconds {
  double cache = 0;
  double network = 0;
  double storage = 0;

  /// Of the average sample: that of the cache, whose copies take the loader's own threads, as in [DS-Analyzer, Eq 3], and the longer one of the
  /// network's and the storage's, which are waited for at the same time. [Yang-Cong, Eqs 7 and 8] add those two up, which is a loader that asks for
  /// one thing after the other: measured, ours takes what the longer one takes.
  [[nodiscard]] double fetch() const;
  /// The one that takes the most.
  [[nodiscard]] FetchPart longest() const;
};

/// From the shares and the sources' rates C, N and S for that server, in samples/s, above 0 (infinite allowed). Pure.
SourceSeconds source_seconds(const FetchSources& shares, double cache_rate, double network_rate, double storage_rate);

}  // namespace dsanalyze
