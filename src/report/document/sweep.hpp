#pragma once

#include <optional>
#include <string>
#include <vector>

#include "document.hpp"

namespace dsanalyze::report {

/// A value that a factor takes, with its place among the others: equal places are one value.
struct SweepLevel {
  double place = 0;
  std::string text;
  bool as_measured = false;  ///< not asked for, but what was there; another text for the same place is shown instead
};

/// Results of configurations that differ in some factors.
struct Sweep {
  struct Point {
    std::vector<SweepLevel> levels;  ///< a level for each factor
    double value = 0;
    std::string text;  ///< what a cell says of it
  };
  std::vector<std::string> factors;  ///< names
  std::vector<Point> points;
};

struct SweepMap {
  Table table;       ///< rows and columns sorted by value, the numbers in cells with their heat
  std::string held;  ///< where the factors that are neither rows nor columns stand: "accelerator speed 2x"; empty for none
};

/// Of two factors, those with most values; the others stand where the highest value is. nullopt when fewer than two factors take several values or
/// results lack. Where only the values that were asked for have all their results, what was as measured is left out. `what` begins the caption:
/// "samples/s".
std::optional<SweepMap> sweep_map(const Sweep& sweep, const std::string& what);

}  // namespace dsanalyze::report
