#include "statistics.hpp"

#include <algorithm>
#include <cmath>

#include "dsanalyze/base/distributions.hpp"
#include "dsanalyze/base/statistics.hpp"

namespace dsanalyze::gate {
namespace {

double square(double value) { return value * value; }

void add_residuals(std::span<const double> values, std::vector<double>& residuals) {
  const double centre = mean(values);
  for (const double value : values) residuals.push_back(value - centre);
}

}  // namespace

Contrast welch(std::span<const double> baseline, std::span<const double> current) {
  Contrast contrast;
  contrast.estimate = mean(current) - mean(baseline);
  add_residuals(baseline, contrast.residuals);
  add_residuals(current, contrast.residuals);
  const auto n = static_cast<double>(baseline.size());
  const auto m = static_cast<double>(current.size());
  if (n < 2 && m < 2) return contrast;
  const double others = standard_deviation(n < 2 ? current : baseline);
  const double of_baseline = square(others) / n;
  const double of_current = square(m < 2 ? others : standard_deviation(current)) / m;
  contrast.standard_error = std::sqrt(of_baseline + of_current);
  contrast.deviation = std::sqrt(of_baseline * n + of_current * m);
  if (n < 2 || m < 2) {
    contrast.degrees = std::max(n, m) - 1;
  } else if (contrast.standard_error > 0) {
    contrast.degrees = square(of_baseline + of_current) / (square(of_baseline) / (n - 1) + square(of_current) / (m - 1));
  } else {
    contrast.degrees = n + m - 2;
  }
  return contrast;
}

Contrast blocked(std::span<const Block> blocks) {
  // A session's own difference weighs as much as it is sure: n m / (n + m) of the runs' scatter.
  const auto count = [](const std::vector<double>& values) { return static_cast<double>(values.size()); };
  const auto weight = [&](const Block& block) {
    return count(block.baseline) * count(block.current) / (count(block.baseline) + count(block.current));
  };
  double weights = 0;
  double runs = 0;
  Contrast contrast;
  for (const Block& block : blocks) {
    contrast.estimate += weight(block) * (mean(block.current) - mean(block.baseline));
    weights += weight(block);
    runs += count(block.baseline) + count(block.current);
  }
  contrast.estimate /= weights;
  double squares = 0;
  const auto add = [&](double value, double fitted) {
    contrast.residuals.push_back(value - fitted);
    squares += square(value - fitted);
  };
  for (const Block& block : blocks) {
    const double n = count(block.baseline);
    const double m = count(block.current);
    const double session = (n * mean(block.baseline) + m * (mean(block.current) - contrast.estimate)) / (n + m);
    for (const double value : block.baseline) add(value, session);
    for (const double value : block.current) add(value, session + contrast.estimate);
  }
  const double degrees = runs - static_cast<double>(blocks.size()) - 1;
  if (degrees <= 0) return contrast;
  const double scatter = std::sqrt(squares / degrees);
  contrast.degrees = degrees;
  contrast.standard_error = scatter / std::sqrt(weights);
  contrast.deviation = scatter * std::sqrt(2.0);
  return contrast;
}

Contrast paired(std::span<const double> differences) {
  Contrast contrast;
  contrast.estimate = mean(differences);
  add_residuals(differences, contrast.residuals);
  if (differences.size() < 2) return contrast;
  contrast.deviation = standard_deviation(differences);
  contrast.standard_error = contrast.deviation / std::sqrt(static_cast<double>(differences.size()));
  contrast.degrees = static_cast<double>(differences.size()) - 1;
  return contrast;
}

Contrast between_sessions(std::span<const double> baseline, std::span<const double> current) {
  if (baseline.size() >= 2) return welch(baseline, current);
  // One baseline session says nothing of how far a machine drifts, whatever the current ones do.
  Contrast contrast;
  contrast.estimate = mean(current) - mean(baseline);
  add_residuals(baseline, contrast.residuals);
  add_residuals(current, contrast.residuals);
  return contrast;
}

std::int64_t needed_repetitions(double deviation, double distance, double level, double degrees_per_repetition) {
  const auto enough = [&](std::int64_t n) {
    const double degrees = degrees_per_repetition * static_cast<double>(n - 1);
    const double factor = student_t_quantile(1 - level, degrees) + student_t_quantile(0.8, degrees);
    return factor * deviation / std::sqrt(static_cast<double>(n)) <= distance;
  };
  // The normal distribution needs a little less than Student's t: from there it is a few steps.
  const double normal = (normal_quantile(1 - level) + normal_quantile(0.8)) * deviation / distance;
  if (!(normal * normal < most_repetitions)) return most_repetitions;
  std::int64_t n = std::max<std::int64_t>(std::llround(std::floor(normal * normal)), 2);  // one repetition has no scatter
  while (n < most_repetitions && !enough(n)) ++n;
  return n;
}

}  // namespace dsanalyze::gate
