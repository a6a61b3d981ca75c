#include "base/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

using namespace dsanalyze;

TEST_CASE("the stream is SplitMix64 as published") {
  RandomStream random(1234567);
  constexpr std::array<std::uint64_t, 5> published = {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL, 4593380528125082431ULL,
                                                      16408922859458223821ULL};
  for (const std::uint64_t expected : published) CHECK(random.next() == expected);
}

TEST_CASE("mix is stable and tells its arguments and their order apart") {
  CHECK(mix(1, 2, 3) == mix(1, 2, 3));
  CHECK(mix(1234567) == mix(1234567, 0, 0));
  CHECK(mix(1, 2) != mix(2, 1));
  CHECK(mix(0, 1) != mix(1, 0));
  CHECK(mix(1, 2, 3) != mix(1, 3, 2));
}

TEST_CASE("mix flips about half of the bits for a change of one") {
  double flipped = 0;
  for (std::uint64_t bit = 0; bit < 64; ++bit) flipped += __builtin_popcountll(mix(42, 7) ^ mix(42 ^ (1ULL << bit), 7));
  CHECK(flipped / 64 == doctest::Approx(32).epsilon(0.1));
}

TEST_CASE("uniform numbers lie in [0, 1) with the mean and deviation of their law") {
  RandomStream random(1);
  double sum = 0;
  double squares = 0;
  constexpr int count = 100'000;
  bool inside = true;
  for (int index = 0; index < count; ++index) {
    const double value = random.uniform();
    inside = inside && value >= 0 && value < 1;
    sum += value;
    squares += value * value;
  }
  CHECK(inside);
  CHECK(sum / count == doctest::Approx(0.5).epsilon(0.01));
  CHECK(squares / count == doctest::Approx(1.0 / 3).epsilon(0.01));
}

TEST_CASE("below gives every value equally often and never the bound") {
  RandomStream random(2);
  std::array<int, 6> counts{};
  for (int index = 0; index < 60'000; ++index) ++counts.at(random.below(counts.size()));
  for (const int count : counts) CHECK(count == doctest::Approx(10'000).epsilon(0.05));
  CHECK(random.below(1) == 0);
}

TEST_CASE("below is without bias where a plain multiplication would give every third value twice as often") {
  RandomStream random(3);
  constexpr std::uint64_t bound = 3ULL << 62;
  int multiples = 0;
  for (int index = 0; index < 30'000; ++index) multiples += random.below(bound) % 3 == 0 ? 1 : 0;
  CHECK(multiples == doctest::Approx(10'000).epsilon(0.05));
}

TEST_CASE("normal numbers have mean 0 and deviation 1 and are finite") {
  RandomStream random(4);
  double sum = 0;
  double squares = 0;
  constexpr int count = 100'000;
  for (int index = 0; index < count; ++index) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / count) < 0.02);
  CHECK(squares / count == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("a permutation holds every number once, is the same for the same key and another for another") {
  std::vector<std::uint32_t> first(1000);
  std::vector<std::uint32_t> again(1000);
  std::vector<std::uint32_t> other(1000);
  random_permutation(5, first);
  random_permutation(5, again);
  random_permutation(6, other);
  CHECK(first == again);
  CHECK(first != other);
  std::ranges::sort(first);
  for (std::uint32_t index = 0; index < first.size(); ++index) CHECK(first[index] == index);
}

TEST_CASE("all six orders of three come equally often") {
  std::array<int, 27> counts{};
  std::array<std::uint32_t, 3> order{};
  for (std::uint64_t key = 0; key < 12'000; ++key) {
    random_permutation(key, order);
    ++counts.at(order[0] * 9 + order[1] * 3 + order[2]);
  }
  int seen = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++seen;
    CHECK(count == doctest::Approx(2000).epsilon(0.1));
  }
  CHECK(seen == 6);
}

TEST_CASE("empty and single permutations are no special case") {
  std::vector<std::uint32_t> none;
  random_permutation(1, none);
  std::vector<std::uint32_t> one(1, 9);
  random_permutation(1, one);
  CHECK(one.front() == 0);
}
