#pragma once

namespace dsanalyze {

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
