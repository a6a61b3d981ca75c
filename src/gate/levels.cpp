#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "statistics.hpp"

namespace dsanalyze::gate {
namespace {

using Matrix = std::vector<std::vector<double>>;

// ---- several metrics

constexpr std::size_t draws = 20'000;
constexpr std::size_t most_metrics = 8;

/// Normal deviates that every comparison counts over, `most_metrics` a draw.
const std::vector<double>& normal_draws() {
  static const std::vector<double> values = [] {
    RandomStream random(mix(0x6761'7465, draws));
    std::vector<double> result(draws * most_metrics);
    for (double& value : result) value = random.normal();
    return result;
  }();
  return values;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

/// What can be relied on of a correlation that was estimated from so many observations.
double cautious(double estimated, std::size_t observations) {
  if (observations < 5) return 0;
  const double z = std::atanh(std::clamp(estimated, -0.999, 0.999)) - 1 / std::sqrt(static_cast<double>(observations) - 4);
  return std::max(0.0, std::tanh(z));
}

/// The lower triangle with triangle * transpose = correlations; empty when these are no correlations (not positive definite).
Matrix cholesky(const Matrix& correlations) {
  const std::size_t size = correlations.size();
  Matrix triangle(size, std::vector<double>(size, 0));
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column <= row; ++column) {
      double rest = correlations[row][column];
      for (std::size_t k = 0; k < column; ++k) rest -= triangle[row][k] * triangle[column][k];
      if (row != column) {
        triangle[row][column] = rest / triangle[column][column];
        continue;
      }
      if (rest <= 1e-9) return {};
      triangle[row][row] = std::sqrt(rest);
    }
  }
  return triangle;
}

Matrix copula(const std::vector<std::vector<double>>& residuals) {
  const std::size_t size = residuals.size();
  Matrix correlations(size, std::vector<double>(size, 1));
  for (std::size_t a = 0; a < size; ++a)
    for (std::size_t b = 0; b < a; ++b)
      correlations[a][b] = correlations[b][a] = cautious(correlation(residuals[a], residuals[b]), residuals[a].size());
  for (;;) {
    Matrix triangle = cholesky(correlations);
    if (!triangle.empty()) return triangle;
    for (std::size_t a = 0; a < size; ++a)
      for (std::size_t b = 0; b < size; ++b)
        if (a != b) correlations[a][b] *= 0.95;
  }
}

// ---- several looks

/// A density over equally spaced points, for Simpson's rule.
struct Density {
  double low = 0;
  double step = 0;
  std::vector<double> values;

  template <typename Weight>
  [[nodiscard]] double integral(const Weight& weight) const {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double factor = i == 0 || i + 1 == values.size() ? 1 : i % 2 == 1 ? 4 : 2;
      sum += factor * values[i] * weight(low + static_cast<double>(i) * step);
    }
    return sum * step / 3;
  }
};

constexpr std::size_t points = 241;  // odd
constexpr double reach = 8;          // deviations

double normal_density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }

template <typename Function>
Density tabulated(double low, double high, const Function& function) {
  Density density{low, (high - low) / (points - 1), {}};
  for (std::size_t i = 0; i < points; ++i) density.values.push_back(function(low + static_cast<double>(i) * density.step));
  return density;
}

/// The bound that paths which have not crossed yet cross with probability `spent` after a further step of that deviation.
double bound_for(const Density& before, double deviation, double spent) {
  double low = -reach;
  double high = 2 * reach;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    const double crossing = before.integral([&](double from) { return normal_cdf((from - middle) / deviation); });
    (crossing > spent ? low : high) = middle;
  }
  return high;
}

}  // namespace

double simultaneous_level(const std::vector<std::vector<double>>& residuals, const std::vector<double>& weights, double alpha) {
  const std::size_t size = residuals.size();
  if (size == 0) return alpha;
  if (size > most_metrics) throw Error(fmt::format("{} metrics in one comparison; the draws are for at most {}", size, most_metrics));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (size == 1) return alpha / sum;
  const Matrix triangle = copula(residuals);
  const std::vector<double>& normal = normal_draws();
  // The least of p / weight in each draw: the level that this draw would have erred at.
  std::vector<double> least(draws, 1);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    const double* const independent = &normal[draw * most_metrics];
    for (std::size_t row = 0; row < size; ++row) {
      double value = 0;
      for (std::size_t k = 0; k <= row; ++k) value += triangle[row][k] * independent[k];
      if (value > 1) least[draw] = std::min(least[draw], normal_cdf(-value) / weights[row]);
    }
  }
  const auto place = least.begin() + static_cast<std::ptrdiff_t>(alpha * static_cast<double>(draws));
  std::ranges::nth_element(least, place);
  return std::clamp(*place, alpha / sum, alpha / *std::ranges::max_element(weights));
}

std::vector<double> look_levels(std::span<const double> information, double alpha) {
  std::vector<double> levels;
  Density density;
  double spent = 0;
  double time = 0;
  for (const double now : information) {
    const double to_spend = alpha * std::pow(now, spending_power) - spent;
    const double deviation = std::sqrt(now - time);
    double bound = 0;
    if (levels.empty()) {
      bound = -normal_quantile(to_spend) * deviation;
      density = tabulated(-reach * deviation, bound, [&](double at) { return normal_density(at / deviation) / deviation; });
    } else {
      bound = bound_for(density, deviation, to_spend);
      const Density before = density;
      density = tabulated(-reach * std::sqrt(now), bound, [&](double at) {
        return before.integral([&](double from) { return normal_density((at - from) / deviation) / deviation; });
      });
    }
    levels.push_back(normal_cdf(-bound / std::sqrt(now)));
    spent += to_spend;
    time = now;
  }
  return levels;
}

}  // namespace dsanalyze::gate
