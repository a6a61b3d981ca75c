#include "kept_batches.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/statistics.hpp"

namespace dsanalyze {
namespace {

double mean_of(const std::map<std::uint64_t, double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0, [](double all, const auto& each) { return all + each.second; });
  return sum / static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

/// Validation between two steps has nothing to do with the batch.
double seconds_of_step(const StepWindow& window, std::size_t i) {
  return window.wait[i] + window.compute[i] + window.outside[i] - window.validation[i];
}

}  // namespace

KeptBatches::KeptBatches(const std::vector<StepWindow>& windows) {
  std::map<std::uint64_t, std::vector<double>> steps;
  for (const StepWindow& window : windows) {
    for (std::size_t i = 0; i < window.batch.size(); ++i) {
      if (window.batch[i] == 0) continue;
      steps[window.batch[i]].push_back(seconds_of_step(window, i));
      m_samples[window.batch[i]] = window.samples[i];
    }
  }
  for (auto& [batch, seconds] : steps) m_seconds[batch] = median(std::move(seconds));
}

double KeptBatches::samples_per_step() const { return mean_of(m_samples); }

double KeptBatches::typical_seconds() const { return mean_of(m_seconds); }

double KeptBatches::longer(const StepWindow& window) const {
  double seconds = 0;
  double steps = 0;
  for (const std::uint64_t batch : window.batch) {
    const auto found = m_seconds.find(batch);
    if (found == m_seconds.end()) continue;
    seconds += found->second;
    ++steps;
  }
  const double typical = typical_seconds();
  return steps > 0 && typical > 0 && seconds > 0 ? seconds / steps / typical : 1;
}

}  // namespace dsanalyze
