#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
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

/// Throws std::domain_error unless `cached`, the part of a dataset that a cache holds, lies in [0, 1]. NaN does not.
void require_cached_fraction(double cached);

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

/// The pipeline's bottleneck: the lowest of F, P and G [DS-Analyzer, App. C.2]. Without G, of F and P.
struct BottleneckRule {
  Resource resource = Resource::gpu;
  Resource next = Resource::gpu;  ///< the bottleneck after it
  double samples_per_s = 0;       ///< min(F, P, G)
  double next_samples_per_s = 0;  ///< the second lowest
};
BottleneckRule bottleneck(double fetch, double prep, std::optional<double> ingestion);

/// Of a batch of so many samples, the fraction nearest to `share` that is of whole samples.
double share_of_batch(double share, std::uint32_t samples);

/// How fast samples reach the GPU where whole batches are copied at `transfer` samples/s, and it prepares `gpu_share` of each itself; infinite where
/// that is all.
double transfer_supply(double transfer, double gpu_share);

/// Prep by two servers at once, the CPU's cores and a GPU, in samples/s of each alone. The GPU's samples take cores, too.
struct PrepServers {
  double cpu = 0;               ///< all cores, nothing on the GPU
  double gpu = 0;               ///< the GPU, no sample on a core of its own
  double cores = 1;             ///< behind `cpu`
  double gpu_core_seconds = 0;  ///< of cores, for each sample of the GPU: they give it its work

  /// What cores still prepare while the GPU has as much to do as it can.
  [[nodiscard]] double cpu_beside_gpu() const;
  /// Of both together, where that is more than the cores alone.
  [[nodiscard]] double together() const { return gpu + cpu_beside_gpu(); }
  /// Of each batch, for the GPU: with which the slowest of both, and of copies of the cores' samples to the GPU at `transfer` samples/s, is the
  /// fastest. The smallest such fraction.
  [[nodiscard]] double best_share(double transfer = std::numeric_limits<double>::infinity()) const;
  /// With such a share for the GPU, the slower of both decides.
  [[nodiscard]] double with_share(double share) const;
};

/// The share of an epoch lost to prep and to fetch by the closed form: with T = 1/min(F,P,G), prep = (1/min(P,G) - 1/G)/T and
/// fetch = (1/min(F,P,G) - 1/min(P,G))/T, the differences that the runs measure [DS-Analyzer, section 3.2].
struct StallShares {
  double compute = 0;
  double prep = 0;
  double fetch = 0;
};
StallShares stall_shares(double fetch, double prep, double ingestion);

/// Seconds of a pipeline whose stages would take so long alone: (sum of s^k)^(1/k), with k how well they overlap. 1: one after the other, as
/// [Yang-Cong] Eq 4 adds I/O and prep. Infinite: perfectly, the slowest alone counts, the bottleneck rule of [DS-Analyzer, App. C.2]. Between them,
/// stages of about equal length delay one another; k is fitted to measured times, it has no source. Requires at least one stage, each above 0 and
/// finite, and k >= 1; throws std::domain_error otherwise.
double overlapped_seconds(std::span<const double> stages, double exponent);

/// What n workers do together, in samples/s: the universal scalability law, X(n) = a n / (1 + s (n - 1) + k n (n - 1))
/// [Gunther, "Guerrilla Capacity Planning", 2007]. s is what they wait for one another (contention: a lock, a memory channel), k what they spend on
/// keeping in step (coherence), for which X falls again beyond its peak. Both 0: linear.
/// Hyper-threads apart: n counts threads; those beyond the physical cores add only a fraction of a core each. More threads than the host has are
/// those of a larger machine, which has as many threads a core.
struct ScalingLaw {
  /// What a core's second thread adds: 32 to 64 threads prepare 30 % faster [DS-Analyzer, App. B.1].
  static constexpr double usual_thread_share = 0.3;

  double one_core = 0;    ///< a, samples/s
  double contention = 0;  ///< s
  double coherence = 0;   ///< k
  double physical_cores = std::numeric_limits<double>::infinity();
  double thread_share = usual_thread_share;
  double host_threads = std::numeric_limits<double>::infinity();  ///< at least physical_cores

  /// Threads as cores: those beyond the physical ones count thread_share, up to the host's number; beyond it, as many cores a thread as the whole
  /// host has. Requires threads >= 0.
  [[nodiscard]] double effective_cores(double threads) const;
  [[nodiscard]] double rate(double threads) const;
  /// Where the rate is highest: infinite without coherence.
  [[nodiscard]] double peak_threads() const;
};

/// What one accelerator ingests by batch size: a step of b samples takes fixed + b x per_sample seconds, so small batches waste more of it
/// [DS-Analyzer, App. B.3].
struct BatchLaw {
  double fixed_seconds = 0;
  double seconds_per_sample = 0;
  /// samples/s. Requires batch > 0.
  [[nodiscard]] double rate(double batch) const { return batch / (fixed_seconds + batch * seconds_per_sample); }
};

}  // namespace dsanalyze
