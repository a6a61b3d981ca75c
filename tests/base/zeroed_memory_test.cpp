#include "base/system/shared_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/error.hpp"

using namespace dsanalyze;

TEST_CASE("memory for tables is zeroed, aligned, and goes along when it is moved") {
  ZeroedMemory memory(5'000'000);
  CHECK(memory.bytes().size() == 5'000'000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.bytes().data()) % 4096 == 0);
  CHECK(std::ranges::all_of(memory.bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
  memory.bytes().back() = std::byte{7};
  ZeroedMemory moved(std::move(memory));
  CHECK(moved.bytes().back() == std::byte{7});
  ZeroedMemory other(10);
  other = std::move(moved);
  CHECK(other.bytes().size() == 5'000'000);
  CHECK(ZeroedMemory().bytes().empty());
  CHECK(ZeroedMemory(0).bytes().empty());
}

TEST_CASE("more memory than an address space has is an error that says how much was asked") {
  CHECK_THROWS_WITH_AS(ZeroedMemory(std::numeric_limits<std::size_t>::max() / 2), doctest::Contains("no memory for a table of"), Error);
}
