#include "loaders/sample_room.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace dsanalyze {
namespace {

constexpr std::size_t piece = SampleMemory::piece_bytes;

bool is_aligned(std::span<const std::byte> room) { return reinterpret_cast<std::uintptr_t>(room.data()) % 64 == 0; }

TEST_CASE("rooms of samples are aligned and lie apart, whichever threads take them") {
  SampleMemory memory;
  SampleRoom room(memory);
  constexpr std::size_t samples = 300;
  std::vector<std::vector<std::span<std::byte>>> taken(3);
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < taken.size(); ++thread) {
    threads.emplace_back([&room, &taken, thread] {
      for (std::size_t i = 0; i < samples; ++i) {
        taken[thread].push_back(room.take(1 + i * 997 % 200'000));
        std::ranges::fill(taken[thread].back(), static_cast<std::byte>(thread * 80 + i % 80));
      }
    });
  }
  threads.clear();
  for (std::size_t thread = 0; thread < taken.size(); ++thread) {
    for (std::size_t i = 0; i < samples; ++i) {
      const std::span<std::byte> sample = taken[thread][i];
      REQUIRE(sample.size() == 1 + i * 997 % 200'000);
      CHECK(is_aligned(sample));
      CHECK(std::ranges::all_of(sample, [&](std::byte byte) { return byte == static_cast<std::byte>(thread * 80 + i % 80); }));
    }
  }
}

TEST_CASE("pieces are used again, and no more wait than are in use") {
  SampleMemory memory;
  SampleRoom first(memory);
  SampleRoom second(memory);
  for (int i = 0; i < 6; ++i) REQUIRE(first.take(piece).size() == piece);
  for (int i = 0; i < 2; ++i) REQUIRE(second.take(piece).size() == piece);
  first.clear();
  CHECK(memory.free_pieces() == 2);
  const std::byte* const used_again = first.take(1).data();
  CHECK(memory.free_pieces() == 1);
  first.clear();
  CHECK(first.take(1).data() == used_again);
  first.clear();
  second.clear();
  CHECK(memory.free_pieces() <= 2);
}

TEST_CASE("a sample that is larger than a piece has one of its own, which does not wait") {
  SampleMemory memory;
  SampleRoom room(memory);
  SampleRoom other(memory);
  REQUIRE_FALSE(other.take(1).empty());
  const std::span<std::byte> large = room.take(3 * piece + 5);
  REQUIRE(large.size() == 3 * piece + 5);
  large.back() = std::byte{7};
  CHECK(is_aligned(room.take(1)));
  room.clear();
  CHECK(memory.free_pieces() <= 1);
}

TEST_CASE("room that there is no memory for is empty, and later samples have theirs") {
  SampleMemory memory;
  SampleRoom room(memory);
  CHECK(room.take(std::size_t{1} << 62U).empty());
  CHECK(room.take(100).size() == 100);
}

}  // namespace
}  // namespace dsanalyze
