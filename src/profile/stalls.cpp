#include "stalls.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dsanalyze {
namespace {

struct RunRates {
  double ingestion = 0, cached = 0, full = 0;  ///< samples/s
};

/// Compute, prep and fetch as shares of the full run's time, from differences of the runs' time a sample [DS-Analyzer, section 3.2].
using Parts = std::array<double, 3>;
Parts parts_of(const RunRates& rates) {
  const double compute = 1 / rates.ingestion;
  const double from_memory = std::max(compute, 1 / rates.cached);
  const double everything = std::max(from_memory, 1 / rates.full);
  return {compute / everything, (from_memory - compute) / everything, (everything - from_memory) / everything};
}

}  // namespace

/// Each rate is moved to either end of its interval, alone; what that changes of a share adds in squares, upwards and downwards apart. So the error
/// of every run that a quotient holds counts, that of the full run below the line too, and at the edge of a stall an interval is lopsided.
std::array<StallRecord, 3> stalls_of(const RateRecord& ingestion, const RunRecord& cached, const RunRecord& full, double samples) {
  const RunRates rates{ingestion.samples_per_s, cached.samples_per_s, full.samples_per_s};
  const Parts parts = parts_of(rates);
  Parts below{}, above{};
  const auto move = [&](double RunRates::*which, const Interval& interval) {
    constexpr double slowest = 1e-6;  // of the rate: an interval may reach 0
    RunRates low = rates;
    RunRates high = rates;
    low.*which = std::max(interval.low, rates.*which * slowest);
    high.*which = interval.high;
    const Parts at_low = parts_of(low);
    const Parts at_high = parts_of(high);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      below[i] = std::hypot(below[i], parts[i] - std::min({parts[i], at_low[i], at_high[i]}));
      above[i] = std::hypot(above[i], std::max({parts[i], at_low[i], at_high[i]}) - parts[i]);
    }
  };
  move(&RunRates::ingestion, known_interval(ingestion));
  move(&RunRates::cached, known_interval(cached));
  move(&RunRates::full, known_interval(full));
  const double epoch_seconds = samples / rates.ingestion / parts[0];
  std::array<StallRecord, 3> stalls;
  for (std::size_t i = 0; i < parts.size(); ++i)
    stalls[i] = {parts[i] * epoch_seconds, parts[i], {std::max(parts[i] - below[i], 0.0), std::min(parts[i] + above[i], 1.0)}};
  return stalls;
}

}  // namespace dsanalyze
