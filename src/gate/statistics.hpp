#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dsanalyze::gate {

// The statistics of a comparison, without any knowledge of what is compared. All pure.

/// A false regression in one comparison, over all its metrics and looks, has at most this probability; a false improvement too.
constexpr double family_alpha = 0.0075;

/// The square of a standard error, and how many degrees of freedom it was estimated with.
struct SquaredError {
  double value = 0;
  double degrees = 0;
};

/// An estimate of a change, current less baseline.
struct Contrast {
  double estimate = 0;
  std::vector<SquaredError> errors;   ///< independent parts that add up; empty: there is no scatter to take an error from
  std::vector<SquaredError> further;  ///< of these only the one with the largest margin is added
  double deviation = 0;               ///< of what a further repetition a side adds: the standard error is deviation * sqrt(1 / repetitions)
  std::vector<double> residuals;      ///< what is left of each observation without its side's centre, outliers pulled in; aligned between metrics
  std::vector<double> far_off;        ///< distances from their centre of the observations that lie far off the others

  [[nodiscard]] bool has_scatter() const { return !errors.empty(); }
};

/// Half the width of the two-sided interval whose ends are each passed with probability `level` at most: the root of the sum of (Student's t x
/// standard error)^2 over the parts. For independent normal parts the level is kept whatever their true sizes are  [Banerjee, Sankhya 23, 1961]; a
/// t with degrees put together from estimates (Welch, Satterthwaite) does not keep it where one part has few. Requires has_scatter().
double margin(const Contrast& contrast, double level);

/// The mean without the lowest and the highest 15 % (of fewer than seven values: of all), which a few outliers cannot move.
struct TrimmedMean {
  double value = 0;
  /// From the winsorized scatter  [Tukey and McLaughlin, Sankhya A 25, 1963]. Of normal values its t has fewer degrees of freedom than the h - 1 of
  /// the h values that are left: 5/6 of them, found by simulation. No degrees for one value.
  SquaredError error;
  std::vector<double> residuals;  ///< of every value, those of the trimmed ones pulled in to the outermost that was left
  std::vector<double> far_off;    ///< distances of those more than five deviations off
};
TrimmedMean trimmed_mean(std::span<const double> values);

/// Two independent samples, each with a scatter of its own: the difference of their trimmed means. Samples of about as many values, eight at least or
/// just as many, have Welch's degrees of freedom together. A side of one value has no scatter.
Contrast two_samples(std::span<const double> baseline, std::span<const double> current);
/// What ran in the same session, both sides with at least one value.
struct Block {
  std::vector<double> baseline, current;
};
/// Samples in sessions that each shift both of their sides alike. One session: two_samples(). One run a side in each: paired(). Else least squares of
/// a mean for each session and one change, with a scatter for each side, as a few runs of one side must not be judged by the many of the other; no
/// scatter where a side has less than one degree of freedom. At least one block.
Contrast blocked(std::span<const Block> blocks);
/// The fewest degrees of freedom that a side has in blocked().
double degrees_of_blocks(std::span<const Block> blocks);
/// Differences of pairs: their trimmed mean.
Contrast paired(std::span<const double> differences);
/// A side's runs, session by session.
using SessionRuns = std::vector<std::vector<double>>;
/// Sessions of one side against other sessions of the other, by a mixed model: each session shifts its runs by a draw of one variance T, each run
/// scatters by another, R, so that the mean of a session of n runs has T + R/n. The scatter between session means, both sides together, gives T and a
/// part of R; what the sides' numbers of runs leave of R beyond it is added from the scatter within sessions: that of both sides together, or of one
/// side beyond the other's, whichever is largest. A single session is averaged with no other, so t has four degrees of freedom at most there, which
/// keeps the level for sessions with tails as heavy as those of t with four. Nothing scatters with one baseline session, and with one current run.
Contrast between_sessions(const SessionRuns& baseline, const SessionRuns& current);

/// One-sided level of a test of weight 1 among several that together err with probability `alpha`, where a test of weight w (at most 1) has w times
/// that level: Bonferroni's alpha / (sum of weights) for independent ones, up to alpha for tests that move together. The dependence is a Gaussian
/// copula with the correlation of `residuals` (each list of one metric, worse side up), of which one standard error (Fisher's z) is taken off, and
/// negative ones are taken as 0; the probability is counted over fixed draws, so it is reproducible.
double simultaneous_level(const std::vector<std::vector<double>>& residuals, const std::vector<double>& weights, double alpha);

/// Levels of the looks of a group-sequential test at `information` (ascending shares of the planned size, the last at most 1), which together err
/// with probability `alpha`: by the spending function alpha * t^spending_power  [Kim and DeMets, Biometrika 74, 1987], for normal increments by
/// numerical integration  [Armitage, McPherson, Rowe, J. R. Statist. Soc. A 132, 1969]. Level k is one-sided, P(Z_k > c_k).
std::vector<double> look_levels(std::span<const double> information, double alpha);
constexpr double spending_power = 1.5;

/// The least repetitions a side with which a change of `distance` is seen in 4 of 5 cases at one-sided `level`: the least n with
/// (t(1 - level) + t(0.8)) * deviation / sqrt(n) <= distance, with degrees_per_repetition * (n - 1) degrees of freedom. At most `most_repetitions`.
std::int64_t needed_repetitions(double deviation, double distance, double level, double degrees_per_repetition);
constexpr std::int64_t most_repetitions = 10'000;

}  // namespace dsanalyze::gate
