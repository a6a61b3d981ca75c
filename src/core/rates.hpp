#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/statistics.hpp"

namespace dsanalyze {

/// The rates of one server in samples/s, as totals of all its accelerators and cores [DS-Analyzer, App. C.1].
struct Rates {
  std::optional<double> ingestion;  ///< G
  double prep = 0;                  ///< P
  double cache = 0;                 ///< C
  double storage = 0;               ///< S
};

enum class Resource { gpu, cpu, io };
constexpr std::array<const char*, 3> names_of(Resource /*type*/) { return {"gpu", "cpu", "io"}; }
std::string resource_name(Resource resource);

/// Ingestion rate G = iterations x global batch size / seconds  [DS-Analyzer, Eq 1, Eq 2]. Requires all > 0; throws std::domain_error otherwise.
double ingestion_rate(double iterations, double global_batch_size, double seconds);

/// Time of one pass over D samples, fraction x of them from the cache: T_f = D x / C + D (1 - x) / S, in seconds  [DS-Analyzer, Eq 3].
/// Requires samples > 0, 0 <= x <= 1, C > 0, S > 0 (infinite allowed); throws std::domain_error otherwise.
double fetch_seconds(double samples, double x, double cache_rate, double storage_rate);

/// Effective fetch rate F = 1 / (x/C + (1-x)/S), samples/s, for a cache that holds fraction x of the dataset  [DS-Analyzer, Eq 4].
/// Same requirements as fetch_seconds.
double effective_fetch_rate(double x, double cache_rate, double storage_rate);

/// The smallest cached fraction at which F reaches `target` samples/s: x = (1/S - 1/target) / (1/S - 1/C), from Eq 4. 0 when storage alone
/// reaches it; nullopt when even C does not.
std::optional<double> cache_fraction_for(double target, double cache_rate, double storage_rate);

/// What binds the pipeline: the lowest of F, P and G [DS-Analyzer, App. C.2]. Without G, of F and P.
struct BottleneckRule {
  Resource resource = Resource::gpu;
  Resource next = Resource::gpu;  ///< what binds after it
  double samples_per_s = 0;       ///< min(F, P, G)
  double next_samples_per_s = 0;  ///< the second lowest
};
BottleneckRule bottleneck(double fetch, double prep, std::optional<double> ingestion);

/// The share of an epoch lost to prep and to fetch by the closed form: with T = 1/min(F,P,G), prep = (1/min(P,G) - 1/G)/T and
/// fetch = (1/min(F,P,G) - 1/min(P,G))/T, the differences that the runs measure [DS-Analyzer, section 3.2].
struct StallShares {
  double compute = 0;
  double prep = 0;
  double fetch = 0;
};
StallShares stall_shares(double fetch, double prep, double ingestion);

}  // namespace dsanalyze
