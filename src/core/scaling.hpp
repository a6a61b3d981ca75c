#pragma once

#include <limits>

namespace dsanalyze {

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
