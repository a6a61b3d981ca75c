#include "distributions.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace dsanalyze {
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
