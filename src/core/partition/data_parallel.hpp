#pragma once

#include <array>
#include <cstddef>

namespace dsanalyze {

/// The mean share of a global batch that moves between servers to balance it, beta [Yang-Cong, section V-C, Fig 6], when all of them together hold
/// the share `held` of D samples, each as much as the others: a server finds a hypergeometric number of the p b samples of a global batch in its
/// cache, with mean b held and variance b held (1 - held / p) (1 - p b / D). What it finds beyond b moves; what no server holds fills up those that
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
constexpr std::array<const char*, 3> names_of(FetchPart /*type*/) { return {"storage", "cache", "network"}; }
constexpr const char* fetch_part_name(FetchPart part) { return names_of(part).at(static_cast<std::size_t>(part)); }

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
