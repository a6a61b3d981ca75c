#include "sample_sizes.hpp"

#include <algorithm>
#include <limits>

#include "base/random.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes not_asked = std::numeric_limits<Bytes>::max();
constexpr Bytes no_file = not_asked - 1;
constexpr std::size_t measured_first = 1000;
constexpr std::size_t smallest_round = 64;
constexpr std::size_t largest_round = 1 << 16;
constexpr double round_seconds = 0.1;

/// So many more that a round takes about a tenth of a second: the budget is looked at that often.
std::size_t next_round(std::size_t done, double elapsed_seconds) {
  if (done == 0) return smallest_round;
  if (done < measured_first) return std::min(measured_first - done, done);
  const double fitting = elapsed_seconds > 0 ? static_cast<double>(done) * round_seconds / elapsed_seconds : static_cast<double>(largest_round);
  return static_cast<std::size_t>(std::clamp(fitting, static_cast<double>(smallest_round), static_cast<double>(largest_round)));
}

}  // namespace

SampleSizes ask_sizes(std::uint32_t count, const AskSize& ask, const SizeLimits& limits, const Clock& clock, const std::stop_token& stop) {
  std::vector<std::uint32_t> order(count);
  random_permutation(mix(limits.seed, 0x73697a65), order);
  std::vector<Bytes> size_of(count, not_asked);
  const std::size_t subset = std::min<std::size_t>(count, std::max<std::uint32_t>(limits.sampled_samples, 1));

  const Nanoseconds begin = clock.now();
  std::size_t done = 0;
  double elapsed = 0;
  while (done < count) {
    const double whole_seconds = done > 0 ? elapsed * static_cast<double>(count) / static_cast<double>(done) : 0;
    const bool pace_is_known = done >= measured_first || elapsed > limits.budget_seconds / 10;
    if (pace_is_known && whole_seconds > limits.budget_seconds && done >= subset) break;
    if (done > 0 && elapsed >= limits.budget_seconds) break;
    const std::size_t round = std::min<std::size_t>(next_round(done, elapsed), count - done);
    parallel_ranges(round, 16, limits.threads, stop, [&](std::size_t first, std::size_t last) {
      for (std::size_t place = done + first; place < done + last; ++place) size_of[order[place]] = ask(order[place]).value_or(no_file);
    });
    done += round;
    elapsed = to_seconds(clock.now() - begin);
  }

  SampleSizes result;
  result.sampled = done < count;
  if (result.sampled) {
    for (std::size_t place = subset; place < done; ++place) size_of[order[place]] = not_asked;
  }
  for (std::uint32_t file = 0; file < count; ++file) {
    if (size_of[file] >= no_file) continue;
    result.files.push_back(file);
    result.bytes.push_back(size_of[file]);
  }
  return result;
}

}  // namespace dsanalyze
