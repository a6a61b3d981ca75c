#include "kept_batches.hpp"

#include <algorithm>
#include <cmath>
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
  for (auto& [batch, seconds] : steps) {
    std::array<std::vector<double>, 2> halves;
    for (std::size_t i = 0; i < seconds.size(); ++i) halves[i % 2].push_back(seconds[i]);
    if (halves[1].empty()) halves[1] = halves[0];
    m_halves[batch] = {median(std::move(halves[0])), median(std::move(halves[1]))};
    m_seconds[batch] = median(std::move(seconds));
  }
}

double KeptBatches::samples_per_step() const { return mean_of(m_samples); }

double KeptBatches::typical_seconds() const { return mean_of(m_seconds); }

double KeptBatches::sampling_error() const {
  const auto batches = static_cast<double>(count());
  const double typical = typical_seconds();
  const double samples = samples_per_step();
  if (count() < 2 || typical <= 0 || samples <= 0) return 0;
  std::array<double, 2> seconds_per_sample{};
  for (const auto& [batch, halves] : m_halves)
    for (std::size_t half = 0; half < halves.size(); ++half) seconds_per_sample[half] += halves[half] / (samples * batches);
  double covariance = 0;
  for (const auto& [batch, halves] : m_halves) {
    const double of_batch = m_samples.at(batch);
    covariance += (halves[0] - seconds_per_sample[0] * of_batch) * (halves[1] - seconds_per_sample[1] * of_batch) / (batches - 1);
  }
  return std::sqrt(std::max(covariance, 0.0) / batches) / typical;
}

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
