#include "service_times.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {

Distribution::Distribution(std::vector<double> quantiles, std::string_view field) : m_quantiles(std::move(quantiles)) {
  if (m_quantiles.empty()) throw UsageError(fmt::format("{}: no quantiles, expected at least one value", field));
  double before = 0;
  for (std::size_t i = 0; i < m_quantiles.size(); ++i) {
    const double value = m_quantiles[i];
    if (!std::isfinite(value) || value < 0) throw UsageError(fmt::format("{}: quantile {} is {}, expected a number of at least 0", field, i, value));
    if (value < before) throw UsageError(fmt::format("{}: quantile {} is {}, below the one before it, {}", field, i, value, before));
    before = value;
  }
  m_steps = static_cast<double>(m_quantiles.size() - 1);
}

double Distribution::mean() const {
  if (is_constant()) return m_quantiles.front();
  double sum = (m_quantiles.front() + m_quantiles.back()) / 2;
  for (std::size_t i = 1; i + 1 < m_quantiles.size(); ++i) sum += m_quantiles[i];
  return sum / m_steps;
}

Distribution with_mean(const std::optional<DistributionRecord>& measured, double mean, std::string_view field) {
  if (!measured || measured->quantiles.size() < 2) return Distribution::constant(mean, field);
  const double measured_mean = Distribution(measured->quantiles, field).mean();
  if (!(measured_mean > 0)) return Distribution::constant(mean, field);
  std::vector<double> scaled = measured->quantiles;
  for (double& quantile : scaled) quantile *= mean / measured_mean;
  return {std::move(scaled), field};
}

}  // namespace dsanalyze
