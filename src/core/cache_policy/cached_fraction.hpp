#pragma once

#include <fmt/format.h>

#include <stdexcept>

namespace dsanalyze {

/// Throws std::domain_error unless `cached`, the part of a dataset that a cache holds, lies in [0, 1]. NaN does not.
inline void require_cached_fraction(double cached) {
  if (!(cached >= 0 && cached <= 1)) throw std::domain_error(fmt::format("a cached fraction lies between 0 and 1, found {}", cached));
}

}  // namespace dsanalyze
