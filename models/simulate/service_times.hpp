#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "core/records/result.hpp"

namespace dsanalyze {

/// A measured distribution as its equally spaced quantiles (DurationCounts::quantiles() gives them): the smallest value first, the largest last,
/// linear in between; one value is a constant. Immutable. Threads: any.
class Distribution {
 public:
  /// Always 0.
  Distribution() = default;
  /// Throws UsageError that begins with `field` when there is no value, or one is negative, infinite, no number, or smaller than the one before.
  Distribution(std::vector<double> quantiles, std::string_view field);
  /// The same value always. Throws as above.
  static Distribution constant(double value, std::string_view field) { return {{value}, field}; }
  /// As measured. Between the last two quantiles, where the rarest values are, it bends so that the mean is the measured one: the longest of many
  /// thousands would weigh as much as a hundredth of them otherwise. Throws as above.
  static Distribution measured(const DistributionRecord& record, std::string_view field);
  /// With every value so many times as large.
  [[nodiscard]] Distribution scaled(double factor) const;

  /// The quantile at `share`, 0 <= share < 1: with a uniform random share, a draw.
  [[nodiscard]] double draw(double share) const {
    if (m_steps == 0) return m_quantiles.front();
    const double place = share * m_steps;
    const auto below = static_cast<std::size_t>(place);
    const double beyond = place - static_cast<double>(below);
    if (m_tail_power > 1 && below + 2 == m_quantiles.size()) return in_tail(beyond);
    return m_quantiles[below] + beyond * (m_quantiles[below + 1] - m_quantiles[below]);
  }
  [[nodiscard]] bool is_constant() const { return m_steps == 0; }
  [[nodiscard]] double mean() const;

 private:
  // Between the last two, which one draw of a hundred is: apart, so that the others need no room for a call.
  [[nodiscard]] double in_tail(double beyond) const;

  std::vector<double> m_quantiles{0};
  double m_steps = 0;       // between quantiles
  double m_tail_power = 1;  // of the way between the last two
};

/// Measured quantiles, scaled so that their mean is `mean`; that mean alone where none were measured. Throws as the constructor.
Distribution with_mean(const std::optional<DistributionRecord>& measured, double mean, std::string_view field);

/// Seconds that one request, or one sample, keeps its place busy.
using ServiceTimes = Distribution;
/// Bytes a sample.
using SampleSizes = Distribution;

}  // namespace dsanalyze
