#include "service_times.hpp"

#include <fmt/format.h>

#include <algorithm>
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

double Distribution::in_tail(double beyond) const {
  const double before_last = m_quantiles[m_quantiles.size() - 2];
  return before_last + std::pow(beyond, m_tail_power) * (m_quantiles.back() - before_last);
}

double Distribution::mean() const {
  if (is_constant()) return m_quantiles.front();
  double sum = m_quantiles.front() / 2;
  for (std::size_t i = 1; i + 2 < m_quantiles.size(); ++i) sum += m_quantiles[i];
  const double before_last = m_quantiles[m_quantiles.size() - 2];
  sum += m_quantiles.size() > 2 ? before_last / 2 : -before_last / 2;
  return (sum + before_last + (m_quantiles.back() - before_last) / (m_tail_power + 1)) / m_steps;
}

Distribution Distribution::measured(const DistributionRecord& record, std::string_view field) {
  constexpr double most_power = 1000;
  Distribution distribution(record.quantiles, field);
  if (distribution.is_constant()) return distribution;
  const double before_last = record.quantiles[record.quantiles.size() - 2];
  const double range = record.quantiles.back() - before_last;
  const double linear = before_last + range / 2;
  const double of_last = linear + (record.mean - distribution.mean()) * distribution.m_steps;
  if (range > 0 && of_last < linear)
    distribution.m_tail_power = std::min(of_last > before_last ? range / (of_last - before_last) - 1 : most_power, most_power);
  return distribution;
}

Distribution Distribution::scaled(double factor) const {
  Distribution result = *this;
  for (double& quantile : result.m_quantiles) quantile *= factor;
  return result;
}

Distribution with_mean(const std::optional<DistributionRecord>& measured, double mean, std::string_view field) {
  if (!measured || measured->quantiles.size() < 2) return Distribution::constant(mean, field);
  const Distribution distribution = Distribution::measured(*measured, field);
  const double measured_mean = distribution.mean();
  return measured_mean > 0 ? distribution.scaled(mean / measured_mean) : Distribution::constant(mean, field);
}

}  // namespace dsanalyze
