#include "transport/wire/places.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

namespace dsanalyze::transport {
namespace {

TEST_CASE("A buffer's memory is asked for by the thread that took it, once, and what came into it stays") {
  Places places(2, 20'000);
  std::array<std::uint32_t, 2> numbers{};
  REQUIRE(places.take(numbers));
  places.touch(numbers[0], 10'000);
  const std::span<std::byte> came = places.buffer(numbers[0]).first(10'000);
  std::ranges::fill(came, std::byte{7});
  places.touch(numbers[0], 9'000);
  places.touch(numbers[0], 20'000);
  CHECK(std::ranges::all_of(came, [](std::byte byte) { return byte == std::byte{7}; }));
  CHECK(std::ranges::all_of(places.buffer(numbers[1]), [](std::byte byte) { return byte == std::byte{}; }));
  places.touch(numbers[1], 1);
  places.touch(numbers[1], 20'000);
  places.give_back(numbers);
  CHECK(places.free() == 2);
}

}  // namespace
}  // namespace dsanalyze::transport
