#include "simulate_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dsanalyze::report {

std::string dataset_line(const SimulateResult& result) {
  std::string text = fmt::format("{} samples, {}", format_number(static_cast<double>(result.samples)), format_bytes(result.dataset_bytes));
  if (result.orders) {
    text += fmt::format("; {} order", result.orders->order);
    if (result.orders->shuffle_buffer > 1) text += fmt::format(" through a shuffle buffer of {}", result.orders->shuffle_buffer);
  }
  if (result.jobs > 1) text += fmt::format("; {} jobs", result.jobs);
  if (result.jobs > 1 && result.orders) text += fmt::format(", each {} of an epoch after the one before", format_share(result.orders->stagger));
  return text + fmt::format("; {} accesses", format_number(static_cast<double>(result.accesses)));
}

double share_of(const CacheCase& cache, Bytes dataset_bytes) {
  return static_cast<double>(cache.capacity) / static_cast<double>(std::max<Bytes>(dataset_bytes, 1));
}

}  // namespace dsanalyze::report
