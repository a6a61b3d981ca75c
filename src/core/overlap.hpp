#pragma once

#include <span>

namespace dsanalyze {

/// Seconds of a pipeline whose stages would take so long alone: (sum of s^k)^(1/k), with k how well they overlap. 1: one after the other, as
/// [Yang-Cong] Eq 4 adds I/O and prep. Infinite: perfectly, the slowest alone counts, the bottleneck rule of [DS-Analyzer, App. C.2]. Between them,
/// stages of about equal length delay one another; k is fitted to measured times, it has no source. Requires at least one stage, each above 0 and
/// finite, and k >= 1; throws std::domain_error otherwise.
double overlapped_seconds(std::span<const double> stages, double exponent);

}  // namespace dsanalyze
