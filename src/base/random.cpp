#include "random.hpp"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace dsanalyze {
namespace {

__extension__ using Wide = unsigned __int128;

// SplitMix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants of Vigna's version.
constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15ULL;

constexpr std::uint64_t finalise(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t mixed = finalise(a + golden_gamma);
  mixed = finalise(mixed + b + golden_gamma);
  return finalise(mixed + c + golden_gamma);
}

std::uint64_t RandomStream::next() {
  m_state += golden_gamma;
  return finalise(m_state);
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019), algorithm 5.
std::uint64_t RandomStream::below(std::uint64_t bound) {
  Wide product = static_cast<Wide>(next()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t biased = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < biased) product = static_cast<Wide>(next()) * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));  // 1 - u lies in (0, 1]: the logarithm is finite
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

void random_permutation(std::uint64_t key, std::span<std::uint32_t> out) {
  std::iota(out.begin(), out.end(), 0U);
  RandomStream random(key);
  for (std::size_t left = out.size(); left > 1; --left) std::swap(out[left - 1], out[random.below(left)]);
}

}  // namespace dsanalyze
