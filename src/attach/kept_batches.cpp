#include "kept_batches.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/statistics.hpp"

namespace dsanalyze {

double kept_batches_error(const std::vector<StepWindow>& windows, std::uint64_t kept) {
  struct Batch {
    double samples = 0;
    std::array<std::vector<double>, 2> seconds;  // of every other repetition
  };
  std::vector<Batch> batches(kept);
  for (const StepWindow& window : windows) {
    for (std::size_t i = 0; i < window.samples.size(); ++i) {
      Batch& batch = batches[i % kept];
      batch.samples = window.samples[i];
      auto& half = batch.seconds[batch.seconds[0].size() > batch.seconds[1].size() ? 1 : 0];
      half.push_back(window.wait[i] + window.compute[i] + window.outside[i] - window.validation[i]);
    }
  }
  std::erase_if(batches, [](const Batch& batch) { return batch.seconds[1].empty(); });
  const auto count = static_cast<double>(batches.size());
  std::vector<std::array<double, 2>> typical;
  double samples = 0;
  std::array<double, 2> seconds{};
  for (Batch& batch : batches) {
    typical.push_back({median(std::move(batch.seconds[0])), median(std::move(batch.seconds[1]))});
    samples += batch.samples;
    for (std::size_t half = 0; half < 2; ++half) seconds[half] += typical.back()[half];
  }
  if (batches.size() < 2 || samples <= 0 || seconds[0] + seconds[1] <= 0) return 0;
  double covariance = 0;
  for (std::size_t i = 0; i < batches.size(); ++i)
    covariance +=
        (typical[i][0] - seconds[0] / samples * batches[i].samples) * (typical[i][1] - seconds[1] / samples * batches[i].samples) / (count - 1);
  return std::sqrt(std::max(covariance, 0.0) / count) / ((seconds[0] + seconds[1]) / 2 / count);
}

}  // namespace dsanalyze
