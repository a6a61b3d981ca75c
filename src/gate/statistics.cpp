#include "statistics.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"

namespace dsanalyze::gate {
namespace {

constexpr double trimmed_share = 0.15;  ///< of the values, at either end
constexpr double far_off_deviations = 5;

double square(double value) { return value * value; }
double count(const std::vector<double>& values) { return static_cast<double>(values.size()); }

double squares_about_mean(std::span<const double> values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += square(value - centre);
  return sum;
}

/// Where Welch's degrees of freedom keep the level, by simulation over unequal scatters; elsewhere they are too many.
bool are_balanced(std::size_t n, std::size_t m) {
  constexpr std::size_t many = 8;
  return n == m || (std::min(n, m) >= many && 3 * std::min(n, m) >= 2 * std::max(n, m));
}

/// The sum of two  [Welch, Biometrika 34, 1947].
SquaredError together(const SquaredError& a, const SquaredError& b) {
  const double sum = a.value + b.value;
  if (sum <= 0) return {0, a.degrees + b.degrees};
  return {sum, square(sum) / (square(a.value) / a.degrees + square(b.value) / b.degrees)};
}

double margin_square(const SquaredError& error, double level) { return square(student_t_quantile(1 - level, error.degrees)) * error.value; }

/// How sure a session's own difference is: n m / (n + m) of a run's.
double weight_of(const Block& block) { return count(block.baseline) * count(block.current) / (count(block.baseline) + count(block.current)); }

/// What least squares leave of a side: squares of residuals, degrees of freedom (runs less their leverages), and the share of its variance in the
/// estimate's.
struct SideOfBlocks {
  double squares = 0;
  double degrees = 0;
  double share = 0;

  [[nodiscard]] double variance() const { return squares / degrees; }
};
struct BothSides {
  SideOfBlocks baseline, current;
};

BothSides counts_of(std::span<const Block> blocks) {
  double weights = 0;
  for (const Block& block : blocks) weights += weight_of(block);
  BothSides sides;
  for (const Block& block : blocks) {
    const double n = count(block.baseline);
    const double m = count(block.current);
    sides.baseline.degrees += n * (1 - 1 / (n + m) - square(m / (n + m)) / weights);
    sides.current.degrees += m * (1 - 1 / (n + m) - square(n / (n + m)) / weights);
    sides.baseline.share += square(weight_of(block) / weights) / n;
    sides.current.share += square(weight_of(block) / weights) / m;
  }
  return sides;
}

bool are_pairs(std::span<const Block> blocks) {
  return std::ranges::all_of(blocks, [](const Block& block) { return block.baseline.size() == 1 && block.current.size() == 1; });
}

Contrast least_squares(std::span<const Block> blocks) {
  Contrast contrast;
  double weights = 0;
  for (const Block& block : blocks) {
    contrast.estimate += weight_of(block) * (mean(block.current) - mean(block.baseline));
    weights += weight_of(block);
  }
  contrast.estimate /= weights;
  BothSides sides = counts_of(blocks);
  const auto add = [&contrast](SideOfBlocks& side, const std::vector<double>& values, double fitted) {
    for (const double value : values) {
      contrast.residuals.push_back(value - fitted);
      side.squares += square(value - fitted);
    }
  };
  for (const Block& block : blocks) {
    const double n = count(block.baseline);
    const double m = count(block.current);
    const double session = (n * mean(block.baseline) + m * (mean(block.current) - contrast.estimate)) / (n + m);
    add(sides.baseline, block.baseline, session);
    add(sides.current, block.current, session + contrast.estimate);
  }
  if (degrees_of_blocks(blocks) < 1) return contrast;
  for (const SideOfBlocks& side : {sides.baseline, sides.current}) contrast.errors.push_back({side.variance() * side.share, side.degrees});
  contrast.deviation = std::sqrt(sides.baseline.variance() + sides.current.variance());
  return contrast;
}

/// A side's sessions: their means, and the scatter of runs within them.
struct SideOfSessions {
  std::vector<double> means;
  double squares = 0;    ///< of runs about their session's mean
  double degrees = 0;    ///< of those
  double run_share = 0;  ///< mean of 1/n: how much of a run's variance a session's mean has
  double freedom = 0;    ///< sum and sum of squares of the weights with which runs' variance is in the scatter of means
  double freedom2 = 0;

  [[nodiscard]] double count() const { return static_cast<double>(means.size()); }
  /// Of a run's variance, as this side shows it, in the mean of its session means.
  [[nodiscard]] double own() const { return degrees > 0 ? squares / degrees * run_share / count() : 0; }
};

SideOfSessions side_of(const SessionRuns& sessions) {
  SideOfSessions side;
  std::vector<double> shares;
  for (const std::vector<double>& runs : sessions) {
    side.means.push_back(mean(runs));
    side.squares += squares_about_mean(runs);
    side.degrees += gate::count(runs) - 1;
    shares.push_back(1 / gate::count(runs));
  }
  side.run_share = mean(shares);
  const double k = side.count();
  // Traces of (centring x variances) and of its square.
  side.freedom = (k - 1) * side.run_share;
  double squares = 0;
  for (const double share : shares) squares += share * share;
  side.freedom2 = squares * (1 - 2 / k) + square(side.run_share);
  return side;
}

}  // namespace

double margin(const Contrast& contrast, double level) {
  double sum = 0;
  for (const SquaredError& error : contrast.errors) sum += margin_square(error, level);
  double most = 0;
  for (const SquaredError& error : contrast.further) most = std::max(most, margin_square(error, level));
  return std::sqrt(sum + most);
}

TrimmedMean trimmed_mean(std::span<const double> values) {
  TrimmedMean trimmed;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const auto dropped = static_cast<std::size_t>(std::floor(trimmed_share * static_cast<double>(values.size()) + 1e-9));
  const std::span<const double> left(sorted.data() + dropped, sorted.size() - 2 * dropped);
  trimmed.value = mean(left);
  std::vector<double> pulled_in;
  for (const double value : values) pulled_in.push_back(std::clamp(value, left.front(), left.back()));
  for (const double value : pulled_in) trimmed.residuals.push_back(value - trimmed.value);
  if (values.size() < 2) return trimmed;
  const auto h = static_cast<double>(left.size());
  trimmed.error.value = squares_about_mean(pulled_in) / (h * (h - 1));
  trimmed.error.degrees = dropped == 0 ? h - 1 : (h - 1) * 5 / 6;
  if (dropped == 0) return trimmed;
  const double deviation = std::sqrt(trimmed.error.value * static_cast<double>(values.size()));
  for (const double value : values)
    if (std::fabs(value - trimmed.value) > far_off_deviations * deviation) trimmed.far_off.push_back(value - trimmed.value);
  return trimmed;
}

Contrast two_samples(std::span<const double> baseline, std::span<const double> current) {
  const TrimmedMean before = trimmed_mean(baseline);
  const TrimmedMean after = trimmed_mean(current);
  Contrast contrast;
  contrast.estimate = after.value - before.value;
  for (const TrimmedMean& side : {before, after}) {
    contrast.residuals.insert(contrast.residuals.end(), side.residuals.begin(), side.residuals.end());
    contrast.far_off.insert(contrast.far_off.end(), side.far_off.begin(), side.far_off.end());
  }
  if (baseline.size() < 2 || current.size() < 2) return contrast;
  contrast.errors = {before.error, after.error};
  if (are_balanced(baseline.size(), current.size())) contrast.errors = {together(before.error, after.error)};
  contrast.deviation = std::sqrt(before.error.value * static_cast<double>(baseline.size()) + after.error.value * static_cast<double>(current.size()));
  return contrast;
}

double degrees_of_blocks(std::span<const Block> blocks) {
  if (are_pairs(blocks)) return static_cast<double>(blocks.size()) - 1;
  const BothSides sides = counts_of(blocks);
  return std::min(sides.baseline.degrees, sides.current.degrees);
}

Contrast blocked(std::span<const Block> blocks) {
  if (blocks.size() == 1) return two_samples(blocks.front().baseline, blocks.front().current);
  if (!are_pairs(blocks)) return least_squares(blocks);
  std::vector<double> differences;
  for (const Block& block : blocks) differences.push_back(block.current.front() - block.baseline.front());
  return paired(differences);
}

Contrast paired(std::span<const double> differences) {
  TrimmedMean trimmed = trimmed_mean(differences);
  Contrast contrast;
  contrast.estimate = trimmed.value;
  contrast.residuals = std::move(trimmed.residuals);
  contrast.far_off = std::move(trimmed.far_off);
  if (differences.size() < 2) return contrast;
  contrast.errors = {trimmed.error};
  contrast.deviation = std::sqrt(trimmed.error.value * static_cast<double>(differences.size()));
  return contrast;
}

Contrast between_sessions(const SessionRuns& baseline, const SessionRuns& current) {
  const SideOfSessions before = side_of(baseline);
  const SideOfSessions after = side_of(current);
  Contrast contrast;
  contrast.estimate = mean(after.means) - mean(before.means);
  for (const SideOfSessions* const side : {&before, &after})
    for (const double value : side->means) contrast.residuals.push_back(value - mean(side->means));
  const double k = before.count();
  const double m = after.count();
  // One baseline session says nothing of how far a machine drifts, and one run nothing of what met it alone.
  if (k < 2 || (m < 2 && after.degrees == 0)) return contrast;

  constexpr double most_degrees_of_one = 4;
  const double sessions = 1 / k + 1 / m;
  const double scatter = (squares_about_mean(before.means) + squares_about_mean(after.means)) / (k + m - 2);
  // As if sessions did not differ: then means of unequal numbers of runs scatter least alike, and the degrees are fewest.
  const double degrees = square(before.freedom + after.freedom) / (before.freedom2 + after.freedom2);
  contrast.errors = {{scatter * sessions, m < 2 ? std::min(degrees, most_degrees_of_one) : degrees}};
  const double run_share = (before.freedom + after.freedom) / (k + m - 2);
  const double lacking = before.run_share / k + after.run_share / m - run_share * sessions;
  if (const double within = before.degrees + after.degrees; within > 0 && lacking > 0)
    contrast.further.push_back({lacking * (before.squares + after.squares) / within, within});
  if (after.degrees > 0) contrast.further.push_back({std::max(0.0, after.own() - before.own()), after.degrees});
  if (before.degrees > 0) contrast.further.push_back({std::max(0.0, before.own() - after.own()), before.degrees});
  double further = 0;
  for (const SquaredError& error : contrast.further) further = std::max(further, error.value);
  contrast.deviation = std::sqrt(2 * (scatter + further / sessions));
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
