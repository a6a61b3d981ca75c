#include "overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dsanalyze {

double overlapped_seconds(std::span<const double> stages, double exponent) {
  if (stages.empty()) throw std::domain_error("a pipeline has at least one stage");
  for (const double seconds : stages) {
    if (!(seconds >= 0) || std::isinf(seconds))
      throw std::domain_error(fmt::format("a stage's time must be at least 0 and finite, found {}", seconds));
  }
  if (!(exponent >= 1)) throw std::domain_error(fmt::format("the exponent of overlap must be at least 1, found {}", exponent));
  const double longest = *std::ranges::max_element(stages);
  if (!(longest > 0)) throw std::domain_error("at least one stage must take time");
  if (std::isinf(exponent)) return longest;
  double sum = 0;  // relative to the longest, so that no power overflows
  for (const double seconds : stages) sum += std::pow(seconds / longest, exponent);
  return longest * std::pow(sum, 1 / exponent);
}

}  // namespace dsanalyze
