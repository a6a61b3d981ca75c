#include "scaling.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {

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
