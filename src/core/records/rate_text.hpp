#pragma once

#include <cmath>
#include <string>

#include "base/statistics.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// Whether "value ± half" would name other ends than the interval has.
inline bool is_lopsided(double value, const Interval& ci95) {
  const double half = (ci95.high - ci95.low) / 2;
  return std::fabs((ci95.high - value) - (value - ci95.low)) > half / 2;
}

/// A rate as people read it, never without its interval when one is known: "2,100 ± 40"; "2,100 (2,090 to 2,180)" when the interval is lopsided;
/// "2,100" when it has no width. Units and the rate's letter are the caller's.
inline std::string format_rate(double value, const Interval& ci95) {
  const double half = (ci95.high - ci95.low) / 2;
  if (!(half > 0)) return format_number(value);
  if (is_lopsided(value, ci95)) return format_number(value) + " (" + format_number(ci95.low) + " to " + format_number(ci95.high) + ")";
  // An uncertainty needs no more digits than the value that it belongs to.
  return format_number(value) + " ± " + format_number(half >= 1 && value >= 100 ? std::round(half) : half);
}

}  // namespace dsanalyze
