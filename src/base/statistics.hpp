#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dsanalyze {

struct Interval {
  double low = 0;
  double high = 0;
  [[nodiscard]] bool overlaps(const Interval& other) const { return low <= other.high && other.low <= high; }
};

/// A mean with its 95 % interval from n repeated windows.
struct Estimate {
  double value = 0;
  Interval ci95;
  std::size_t windows = 0;
  [[nodiscard]] double relative_half_width() const { return value > 0 ? (ci95.high - ci95.low) / 2 / value : 0; }
};

double mean(std::span<const double> values);
double standard_deviation(std::span<const double> values);  ///< n - 1 in the denominator; 0 for fewer than two values
/// The q-quantile (0 <= q <= 1) by linear interpolation between order statistics; 0 for no values.
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }
/// The mean of the largest of so many standard normal draws (at least 1): 0 for 1, 0.564 for 2, 1.029 for 4, 2.818 for 256.
double mean_of_largest(double draws);
/// Two-sided 95 % point of Student's t with n degrees of freedom (n >= 1): 12.706 for 1, 2.228 for 10, 1.960 in the limit.
double student_t95(std::size_t degrees_of_freedom);
/// Mean with Student's interval. One value gives an interval of that value alone with windows = 1: callers must not trust it.
Estimate estimate_mean(std::span<const double> values);

/// The mean of values that follow one another in time, with its 95 % interval. What slows one window often slows the next, so that windows taken for
/// independent would say too much: the interval is the widest of those from means of 1, 2, 4, ... values in a row (batch means  [Law and Carson,
/// Operations Research 27, 1979]), as long as there are five such means. It covers what varies within this run; not what differs between runs.
Estimate estimate_of_sequence(std::span<const double> values);

/// What was done in a stretch of time.
struct Stretch {
  double amount = 0;
  double seconds = 0;  ///< above 0
  [[nodiscard]] double rate() const { return amount / seconds; }
};
/// All that was done by all the time that it took, of stretches that follow one another, with its 95 % interval: that of a ratio  [Cochran, Sampling
/// Techniques, 1977, 2.11], widened as estimate_of_sequence() does. The mean of the stretches' rates is higher, as slow stretches take longer and
/// count no more. No stretches give 0.
Estimate estimate_of_ratio(std::span<const Stretch> stretches);

// Distribution functions of the normal and of Student's t, and their inverses. Quantiles take 0 < p < 1; all throw std::domain_error outside.
// Relative error of the functions is below 1e-10, of the quantiles below 1e-9. Pure; threads: any.

double normal_cdf(double z);
double normal_quantile(double p);
/// Student's t with `degrees` > 0 degrees of freedom, which need not be whole (Welch).
double student_t_cdf(double t, double degrees);
double student_t_quantile(double p, double degrees);

}  // namespace dsanalyze
