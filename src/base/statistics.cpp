#include "statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace dsanalyze {

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto lower = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), lower, values.end());
  if (below + 1 == values.size()) return *lower;
  const double upper = *std::min_element(lower + 1, values.end());
  return *lower + (position - static_cast<double>(below)) * (upper - *lower);
}

double mean_of_largest(double draws) {
  if (!(draws >= 1)) throw std::domain_error("the largest of draws needs at least one");
  // The integral of 1 - F(x)^n - F(-x)^n over x > 0, F of the standard normal distribution, by trapezoids: the function is even and smooth, so their
  // error falls exponentially, and is below 1e-7 for up to 1e9 draws.
  constexpr int steps = 80;
  constexpr double width = 10.0 / steps;
  const auto below = [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; };
  const auto height = [&below, draws](double x) { return 1 - std::pow(below(x), draws) - std::pow(below(-x), draws); };
  double sum = height(0) / 2;
  for (int i = 1; i < steps; ++i) sum += height(i * width);
  return sum * width;
}

double student_t95(std::size_t degrees_of_freedom) {
  constexpr std::array table = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
                                2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
                                2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (degrees_of_freedom == 0) throw std::domain_error("Student's t needs at least one degree of freedom");
  if (degrees_of_freedom <= table.size()) return table[degrees_of_freedom - 1];
  // Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5, around the normal 97.5 % point.
  constexpr double z = 1.959963985;
  constexpr double z3 = z * z * z;
  constexpr double z5 = z3 * z * z;
  const auto n = static_cast<double>(degrees_of_freedom);
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}

Estimate estimate_mean(std::span<const double> values) {
  const double centre = mean(values);
  Estimate estimate{centre, {centre, centre}, values.size()};
  if (values.size() < 2) return estimate;
  const double half_width = student_t95(values.size() - 1) * standard_deviation(values) / std::sqrt(static_cast<double>(values.size()));
  estimate.ci95 = {centre - half_width, centre + half_width};
  return estimate;
}

Estimate estimate_of_sequence(std::span<const double> values) {
  constexpr std::size_t least_batches = 5;
  Estimate estimate = estimate_mean(values);
  double half = (estimate.ci95.high - estimate.ci95.low) / 2;
  for (std::size_t size = 2; values.size() / size >= least_batches; size *= 2) {
    std::vector<double> means;
    for (std::size_t at = values.size() % size; at < values.size(); at += size) means.push_back(mean(values.subspan(at, size)));
    const Interval of_batches = estimate_mean(means).ci95;
    half = std::max(half, (of_batches.high - of_batches.low) / 2);
  }
  estimate.ci95 = {estimate.value - half, estimate.value + half};
  return estimate;
}

Estimate estimate_of_ratio(std::span<const Stretch> stretches) {
  double amount = 0;
  double seconds = 0;
  for (const Stretch& each : stretches) {
    amount += each.amount;
    seconds += each.seconds;
  }
  if (seconds <= 0) return {};
  const double ratio = amount / seconds;
  const double mean_seconds = seconds / static_cast<double>(stretches.size());
  std::vector<double> residuals;
  for (const Stretch& each : stretches) residuals.push_back((each.amount - ratio * each.seconds) / mean_seconds);
  Estimate estimate = estimate_of_sequence(residuals);
  const double half = (estimate.ci95.high - estimate.ci95.low) / 2;
  estimate.value = ratio;
  estimate.ci95 = {ratio - half, ratio + half};
  return estimate;
}

namespace {

void require_probability(double p) {
  if (!(p > 0 && p < 1)) throw std::domain_error("a quantile needs a probability between 0 and 1");
}

/// The continued fraction of the incomplete beta function by Lentz's method  [Press et al., Numerical Recipes, 6.4].
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  constexpr double enough = 1e-15;
  constexpr int most_terms = 10'000;
  const auto away_from_zero = [](double value) { return std::fabs(value) < tiny ? tiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int term = 1; term <= most_terms; ++term) {
    const double m = term;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    result *= d * c;
    if (std::fabs(d * c - 1) < enough) break;
  }
  return result;
}

/// The regularised incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// P(T > t), t >= 0: small values keep their digits.
double upper_tail(double t, double degrees) { return 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)); }

}  // namespace

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

double normal_quantile(double p) {
  require_probability(p);
  if (p > 0.5) return -normal_quantile(1 - p);
  // Abramowitz and Stegun, 26.2.23, then Newton's steps, which double the digits.
  const double t = std::sqrt(-2 * std::log(p));
  double z = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 4; ++step) {
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    z -= (normal_cdf(z) - p) / density;
  }
  return z;
}

double student_t_cdf(double t, double degrees) {
  if (!(degrees > 0) || std::isnan(t)) throw std::domain_error("Student's t needs degrees of freedom above 0");
  return t > 0 ? 1 - upper_tail(t, degrees) : upper_tail(-t, degrees);
}

double student_t_quantile(double p, double degrees) {
  require_probability(p);
  if (!(degrees > 0)) throw std::domain_error("Student's t needs degrees of freedom above 0");
  if (p > 0.5) return -student_t_quantile(1 - p, degrees);
  if (p == 0.5) return 0;
  double high = 1;
  while (upper_tail(high, degrees) > p && high < 1e150) high *= 2;
  double low = 0;
  constexpr int halvings = 200;
  for (int step = 0; step < halvings && high - low > 1e-14 * high; ++step) {
    const double middle = (low + high) / 2;
    (upper_tail(middle, degrees) > p ? low : high) = middle;
  }
  return -(low + high) / 2;
}

}  // namespace dsanalyze
