#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/clock.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// The size of the file with this number; nothing when it turns out to be no file at all. Called from several threads.
using AskSize = std::function<std::optional<Bytes>(std::uint32_t file)>;

struct SizeLimits {
  double budget_seconds = 10;
  std::uint32_t sampled_samples = 50'000;
  std::uint64_t seed = 1;
  int threads = 4;
};

struct SampleSizes {
  std::vector<std::uint32_t> files;  ///< in ascending order
  std::vector<Bytes> bytes;          ///< of each of `files`
  bool sampled = false;              ///< a random subset was asked for
};

/// Asks for sizes in random order, so that whatever was asked when the budget ends is a random subset. Goes on to the last file as long as the pace
/// (measured on the first thousand, then on all) promises to end within the budget; otherwise stops at `sampled_samples` files or at the budget.
/// Throws what `ask` throws; Interrupted on a stop.
SampleSizes ask_sizes(std::uint32_t count, const AskSize& ask, const SizeLimits& limits, const Clock& clock, const std::stop_token& stop);

}  // namespace dsanalyze
