#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dsanalyze::gate {

// The statistics of a comparison, without any knowledge of what is compared. All pure.

/// A false regression in one comparison, over all its metrics and looks, has at most this probability; a false improvement too.
constexpr double family_alpha = 0.0075;

/// An estimate of a change, current less baseline.
struct Contrast {
  double estimate = 0;
  double standard_error = 0;
  double degrees = 0;             ///< of freedom; 0: there is no scatter to take a standard error from
  double deviation = 0;           ///< of what a further repetition a side adds: the standard error is deviation * sqrt(1 / repetitions)
  std::vector<double> residuals;  ///< what is left of each observation without its side's mean; aligned between the metrics of a comparison
};

/// Two independent samples with scatters of their own  [Welch, Biometrika 34, 1947]. A side with one value has none of its own: the other's is taken.
Contrast welch(std::span<const double> baseline, std::span<const double> current);
/// What ran in the same session, both sides with at least one value.
struct Block {
  std::vector<double> baseline, current;
};
/// Two samples in sessions that each shift both of their sides alike: least squares of a mean for each session and one change, with one scatter for
/// all runs and (runs - sessions - 1) degrees of freedom. With one run a side it is paired(). At least one block.
Contrast blocked(std::span<const Block> blocks);
/// Differences of pairs.
Contrast paired(std::span<const double> differences);
/// The means of sessions: the scatter between the baseline's sessions says how far a further session may lie off. `current` may be one session.
/// Two or more current sessions have scatter of their own (Welch).
Contrast between_sessions(std::span<const double> baseline, std::span<const double> current);

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
