#include "calibration.hpp"

#include <cstdint>
#include <vector>

namespace dsanalyze {
namespace {

constexpr std::size_t block_words = (std::size_t{1} << 20) / sizeof(std::uint64_t);
constexpr int passes = 600;

/// Never change this: figures of different versions would not be comparable.
std::uint64_t hash_pass(std::vector<std::uint64_t>& block, std::uint64_t hash) {
  for (std::uint64_t& word : block) {
    hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
    hash ^= hash >> 32;
    word += hash;
  }
  return hash;
}

}  // namespace

double calibrate_cpu(Timing timing) {
  std::vector<std::uint64_t> block(block_words, 1);
  std::uint64_t hash = hash_pass(block, 1);  // pages and clocks are up
  const Nanoseconds begin = timing.clock->now();
  for (int pass = 0; pass < passes; ++pass) hash = hash_pass(block, hash);
  const double seconds = to_seconds(timing.clock->now() - begin);
  [[maybe_unused]] volatile std::uint64_t kept = hash;  // so that the work is not optimised away
  return seconds > 0 ? passes / seconds : 0;
}

}  // namespace dsanalyze
