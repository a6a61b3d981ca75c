#include "loaders/dataset/sample_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "base/clock.hpp"

using namespace dsanalyze;

TEST_CASE("of 1.28 million files on a slow filer only as many are asked as the budget allows") {
  constexpr std::uint32_t files = 1'281'167;
  ManualTiming timing;
  std::atomic<std::uint32_t> asked{0};
  const AskSize slow = [&](std::uint32_t file) -> std::optional<Bytes> {
    ++asked;
    timing.advance(to_nanoseconds(0.001));
    return 1000 + file % 100;
  };
  const SampleSizes sizes = ask_sizes(files, slow, {10, 50'000, 1, 1}, timing, {});
  CHECK(sizes.sampled);
  CHECK(asked <= 10'200);
  CHECK(asked >= 9'900);
  CHECK(sizes.files.size() == asked);
  CHECK(to_seconds(timing.now()) <= 10.2);
  CHECK(std::is_sorted(sizes.files.begin(), sizes.files.end()));
  CHECK(std::set(sizes.files.begin(), sizes.files.end()).size() == sizes.files.size());
  // Spread over the whole dataset, not its beginning: the mean file number of a random subset is near the middle.
  double sum = 0;
  for (const std::uint32_t file : sizes.files) sum += file;
  CHECK(sum / static_cast<double>(sizes.files.size()) == doctest::Approx(files / 2.0).epsilon(0.03));
}

TEST_CASE("a faster filer gives as many samples as a sampled index may hold, and a fast one all") {
  constexpr std::uint32_t files = 300'000;
  for (const auto& [seconds_each, expected] : {std::pair{100e-6, 50'000U}, {10e-6, files}, {0.0, files}}) {
    ManualTiming timing;
    const AskSize ask = [&, pause = to_nanoseconds(seconds_each)](std::uint32_t) -> std::optional<Bytes> {
      timing.advance(pause);
      return 1;
    };
    const SampleSizes sizes = ask_sizes(files, ask, {10, 50'000, 1, 1}, timing, {});
    CHECK(sizes.files.size() == expected);
    CHECK(sizes.sampled == (expected < files));
  }
}

TEST_CASE("a filer that turns slow in the middle still ends within the budget") {
  ManualTiming timing;
  std::uint32_t asked = 0;
  const AskSize ask = [&](std::uint32_t) -> std::optional<Bytes> {
    timing.advance(to_nanoseconds(++asked < 100'000 ? 1e-6 : 0.01));
    return 1;
  };
  const SampleSizes sizes = ask_sizes(300'000, ask, {2, 50'000, 1, 1}, timing, {});
  CHECK(sizes.sampled);
  CHECK(sizes.files.size() == 50'000);
}

TEST_CASE("sizes of the same seed are of the same files, of another seed of others") {
  ManualTiming timing;
  const AskSize ask = [&](std::uint32_t) -> std::optional<Bytes> {
    timing.advance(to_nanoseconds(0.001));
    return 1;
  };
  const auto files_of = [&](std::uint64_t seed) { return ask_sizes(100'000, ask, {1, 500, seed, 1}, timing, {}).files; };
  CHECK(files_of(1) == files_of(1));
  CHECK(files_of(1) != files_of(2));
}
