#include "fits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

namespace dsanalyze {
namespace {

constexpr std::size_t most_terms = 3;
using Row = std::array<double, most_terms>;

/// A weighted least-squares problem: sum over rows of (terms . x - 1)^2, every equation already divided by what it should give.
struct Equations {
  std::vector<Row> rows;
};

/// Solves for the terms that `used` names, the others 0; nullopt when they cannot be told apart.
std::optional<Row> solve(const Equations& equations, const std::array<bool, most_terms>& used) {
  std::array<std::array<double, most_terms + 1>, most_terms> m{};
  for (std::size_t i = 0; i < most_terms; ++i) {
    if (!used[i]) {
      m[i][i] = 1;
      continue;
    }
    for (const Row& row : equations.rows) {
      for (std::size_t j = 0; j < most_terms; ++j) m[i][j] += used[j] ? row[i] * row[j] : 0;
      m[i][most_terms] += row[i];
    }
  }
  for (std::size_t i = 0; i < most_terms; ++i) {
    std::size_t pivot = i;
    for (std::size_t j = i + 1; j < most_terms; ++j) pivot = std::abs(m[j][i]) > std::abs(m[pivot][i]) ? j : pivot;
    std::swap(m[i], m[pivot]);
    if (std::abs(m[i][i]) < 1e-12) return std::nullopt;
    for (std::size_t j = 0; j < most_terms; ++j) {
      if (j == i) continue;
      const double factor = m[j][i] / m[i][i];
      for (std::size_t k = i; k <= most_terms; ++k) m[j][k] -= factor * m[i][k];
    }
  }
  Row x{};
  for (std::size_t i = 0; i < most_terms; ++i) x[i] = m[i][most_terms] / m[i][i];
  return x;
}

double residual(const Equations& equations, const Row& x) {
  double sum = 0;
  for (const Row& row : equations.rows) {
    double value = -1;
    for (std::size_t i = 0; i < most_terms; ++i) value += row[i] * x[i];
    sum += value * value;
  }
  return sum;
}

/// The best of all solutions without a negative term, over all choices of the first `terms` terms, the first always among them.
Row best_non_negative(const Equations& equations, std::size_t terms) {
  Row best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned choice = 0; choice < (1U << (terms - 1)); ++choice) {
    std::array<bool, most_terms> used{true, (choice & 1U) != 0, (choice & 2U) != 0};
    const std::optional<Row> x = solve(equations, used);
    if (!x || std::ranges::any_of(*x, [](double term) { return term < 0; }) || (*x)[0] <= 0) continue;
    if (const double rest = residual(equations, *x); rest < least * (1 - 1e-9)) {
      least = rest;
      best = *x;
    }
  }
  return best;
}

ScalingLaw fit(std::span<const ScalingPoint> points, double physical_cores, double host_threads) {
  ScalingLaw law;
  law.physical_cores = physical_cores;
  law.host_threads = host_threads;
  Equations equations;
  std::vector<double> different;
  for (const ScalingPoint& point : points) {
    // n / X(n) = (1 + s (n - 1) + k n (n - 1)) / a, divided by n / X(n).
    const double n = law.effective_cores(point.cores);
    const double scale = point.samples_per_s / n;
    equations.rows.push_back({scale, scale * (n - 1), scale * n * (n - 1)});
    if (std::ranges::find(different, n) == different.end()) different.push_back(n);
  }
  if (different.empty()) return law;
  const Row x = best_non_negative(equations, std::min(different.size(), most_terms));
  if (x[0] <= 0) return law;
  law.one_core = 1 / x[0];
  law.contention = x[1] / x[0];
  law.coherence = x[2] / x[0];
  return law;
}

/// Of values that rise: y at x, straight in log-log between neighbours, the end's value outside.
double log_log(std::span<const std::pair<double, double>> points, double x) {
  if (x <= points.front().first) return points.front().second;
  if (x >= points.back().first) return points.back().second;
  const auto above = std::ranges::lower_bound(points, x, {}, &std::pair<double, double>::first);
  const auto below = above - 1;
  const double share = std::log(x / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, share);
}

bool same(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(a); }

}  // namespace

FittedScaling::FittedScaling(std::span<const ScalingPoint> points, double physical_cores, double host_threads) {
  std::ranges::copy_if(points, std::back_inserter(m_points), [](const ScalingPoint& point) { return point.cores > 0 && point.samples_per_s > 0; });
  std::ranges::stable_sort(m_points, {}, &ScalingPoint::cores);
  m_law = fit(m_points, physical_cores, host_threads);
}

std::vector<std::pair<double, double>> FittedScaling::corrections() const {
  std::vector<std::pair<double, double>> corrections;
  for (const ScalingPoint& point : m_points) {
    if (!corrections.empty() && point.cores <= corrections.back().first) continue;  // measured twice: the first
    corrections.emplace_back(point.cores, point.samples_per_s / m_law.rate(point.cores));
  }
  return corrections;
}

double FittedScaling::rate(double cores) const {
  if (m_points.empty()) return m_law.rate(cores);
  const auto known = corrections();
  const double fitted = m_law.rate(cores) * log_log(known, cores);
  const auto& [last_cores, last_factor] = known.back();
  if (cores <= last_cores || known.size() < 2) return fitted;
  // Where the last cores measured brought less, no law that levels noise out makes more of them bring more.
  const auto& [before_cores, before_factor] = known[known.size() - 2];
  const double last = m_law.rate(last_cores) * last_factor;
  return last < m_law.rate(before_cores) * before_factor ? std::min(fitted, last) : fitted;
}

FittedScaling FittedScaling::linear(double one_core) {
  ScalingLaw law;
  law.one_core = one_core;
  return FittedScaling(law);
}

std::optional<double> FittedScaling::cores_for(double target) const {
  // The rate rises up to its peak: halve the interval in which it passes the target.
  double high = std::min(m_law.peak_threads(), 1e9);
  if (rate(high) < target) return std::nullopt;
  double low = 0;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (rate(middle) >= target ? high : low) = middle;
  }
  return high;
}

std::vector<std::array<FittedScaling, 2>> FittedScaling::moved_by_errors() const {
  std::vector<std::array<FittedScaling, 2>> fits;
  for (std::size_t i = 0; i < m_points.size(); ++i) {
    const double error = std::min(m_points[i].relative_error, 0.9);
    if (error == 0) continue;
    const auto moved = [&](double factor) {
      std::vector<ScalingPoint> points = m_points;
      points[i].samples_per_s *= factor;
      const ScalingLaw law = fit(points, m_law.physical_cores, m_law.host_threads);
      return FittedScaling(std::move(points), law);
    };
    fits.push_back({moved(1 - error), moved(1 + error)});
  }
  return fits;
}

template <typename Value>
double FittedScaling::moved_error(const Value& value) const {
  const double here = value(*this);
  double sum = 0;
  for (const auto& both : moved_by_errors()) {
    double most = 0;
    for (const FittedScaling& other : both)
      if (other.m_law.one_core > 0) most = std::max(most, std::abs(value(other) / here - 1));
    sum += most * most;
  }
  return std::sqrt(sum);
}

double FittedScaling::factor_error(double from, double to) const {
  if (from == to) return 0;
  return moved_error([&](const FittedScaling& fit) { return fit.factor(from, to); });
}

double FittedScaling::scaled_error(double from, double to, double from_error) const {
  const bool is_point = std::ranges::any_of(m_points, [from](const ScalingPoint& point) { return same(point.cores, from); });
  if (!is_point || from == to) return std::hypot(from_error, factor_error(from, to));
  return moved_error([to](const FittedScaling& fit) { return fit.rate(to); });
}

double FittedScaling::most_measured() const {
  if (m_points.empty()) return std::numeric_limits<double>::infinity();
  return std::ranges::max(m_points, {}, &ScalingPoint::cores).cores;
}

BatchLaw fit_batch_law(std::span<const BatchPoint> points) {
  Equations equations;
  std::vector<double> different;
  for (const BatchPoint& point : points) {
    if (!(point.batch_size > 0) || !(point.samples_per_s > 0)) continue;
    equations.rows.push_back({point.samples_per_s, point.samples_per_s / point.batch_size, 0});
    if (std::ranges::find(different, point.batch_size) == different.end()) different.push_back(point.batch_size);
  }
  if (different.empty()) return {};
  const Row x = best_non_negative(equations, std::min<std::size_t>(different.size(), 2));
  return {x[1], x[0]};
}

FittedBatch::FittedBatch(std::span<const BatchPoint> points) : m_law(fit_batch_law(points)) {
  for (const BatchPoint& point : points) {
    const bool known = std::ranges::any_of(m_corrections, [&](const auto& other) { return same(other.first, point.batch_size); });
    if (!known) m_corrections.emplace_back(point.batch_size, point.samples_per_s / m_law.rate(point.batch_size));
  }
  std::ranges::sort(m_corrections);
}

double FittedBatch::rate(double batch) const { return m_law.rate(batch) * log_log(m_corrections, batch); }

StorageCurve::StorageCurve(std::vector<StoragePoint> points, double run_concurrency) : m_run_concurrency(run_concurrency) {
  std::erase_if(points, [](const StoragePoint& point) { return !(point.request_bytes > 0) || point.concurrency <= 0 || !(point.bytes_per_s > 0); });
  std::vector<CostPoint> cost;
  for (const StoragePoint& point : points) {
    if (!same(point.concurrency, run_concurrency)) continue;
    const auto known = std::ranges::find_if(m_by_size, [&](const StoragePoint& other) { return same(other.request_bytes, point.request_bytes); });
    if (known != m_by_size.end()) continue;  // the first of a size is the one measured longer
    m_by_size.push_back(point);
    cost.push_back({point.request_bytes, point.bytes_per_s});
  }
  std::ranges::sort(m_by_size, {}, &StoragePoint::request_bytes);
  m_cost = fit_storage_cost(cost);

  for (const StoragePoint& point : points) {
    std::vector<StoragePoint> of_size;
    std::ranges::copy_if(points, std::back_inserter(of_size),
                         [&](const StoragePoint& other) { return same(other.request_bytes, point.request_bytes); });
    if (of_size.size() > m_by_concurrency.size()) m_by_concurrency = of_size;
  }
  std::ranges::sort(m_by_concurrency, {}, &StoragePoint::concurrency);
}

double StorageCurve::largest_concurrency() const {
  return m_by_concurrency.empty() ? m_run_concurrency : std::max<double>(m_run_concurrency, m_by_concurrency.back().concurrency);
}

StorageCurve::Rate StorageCurve::by_size(double request_bytes) const {
  std::vector<std::pair<double, double>> points;
  for (const StoragePoint& point : m_by_size) points.emplace_back(point.request_bytes, point.bytes_per_s);
  const double inside = std::clamp(request_bytes, points.front().first, points.back().first);
  const double value = log_log(points, inside);
  if (same(inside, request_bytes)) return {value, false};
  const auto line = [this](double bytes) { return bytes / m_cost.seconds(static_cast<Bytes>(std::llround(bytes))); };
  const double beyond = line(inside) > 0 && std::isfinite(line(inside)) ? line(request_bytes) / line(inside) : 1;
  return {value * (std::isfinite(beyond) && beyond > 0 ? beyond : 1), true};
}

StorageCurve::Rate StorageCurve::concurrency_factor(double concurrency) const {
  std::vector<std::pair<double, double>> points;
  for (const StoragePoint& point : m_by_concurrency) points.emplace_back(point.concurrency, point.bytes_per_s);
  const bool outside = points.size() < 2 || concurrency > points.back().first * (1 + 1e-9) || concurrency < points.front().first * (1 - 1e-9);
  return {log_log(points, concurrency) / log_log(points, m_run_concurrency), outside};
}

std::optional<StorageCurve::Rate> StorageCurve::at(double request_bytes, double concurrency) const {
  if (m_by_size.empty()) return std::nullopt;
  const Rate sized = by_size(request_bytes);
  if (same(concurrency, m_run_concurrency) || m_by_concurrency.empty()) return sized;
  const Rate factor = concurrency_factor(concurrency);
  const bool both_differ = !same(request_bytes, m_by_concurrency.front().request_bytes);
  return Rate{sized.bytes_per_s * factor.bytes_per_s, sized.extrapolated || factor.extrapolated || both_differ};
}

}  // namespace dsanalyze
