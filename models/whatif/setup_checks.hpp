#pragma once

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "core/rates.hpp"

namespace dsanalyze {

// Of a configuration that somebody typed: each names the field, and is written so that NaN fails it.

/// Infinite is allowed: a stage that never binds.
inline void require_rate(const char* name, double value) {
  if (!(value > 0)) throw std::domain_error(fmt::format("{} must be above 0, found {}", name, value));
}

inline void require_rates(const Rates& rates) {
  if (rates.ingestion) require_rate("the ingestion rate G", *rates.ingestion);
  require_rate("the prep rate P", rates.prep);
  require_rate("the cache's rate C", rates.cache);
  require_rate("the storage's rate S", rates.storage);
}

inline void require_share(const char* name, double value) {
  if (!(value >= 0 && value <= 1)) throw std::domain_error(fmt::format("{} must lie between 0 and 1, found {}", name, value));
}

inline void require_at_least(const char* name, double least, double value) {
  if (!(value >= least) || std::isinf(value)) throw std::domain_error(fmt::format("{} must be at least {} and finite, found {}", name, least, value));
}

}  // namespace dsanalyze
