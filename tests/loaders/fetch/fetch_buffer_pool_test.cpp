#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "loaders/fetch/buffer_pool.hpp"
#include "loaders/fetch/file_access.hpp"

namespace dsanalyze {
namespace {

std::uint32_t take_one(BufferPool& pool) {
  std::uint32_t id = 0;
  REQUIRE(pool.take({&id, 1}));
  return id;
}

void give_back(BufferPool& pool, std::uint32_t id) {
  const FetchBuffer buffer{id};
  pool.give_back({&buffer, 1});
}

TEST_CASE("places are taken all or none, and no two have memory in common") {
  BufferPool pool(20);
  std::minstd_rand random(3);
  std::map<std::uint32_t, std::span<std::byte>> held;
  for (int step = 0; step < 5000; ++step) {
    if (held.size() < pool.capacity() && random() % 2 == 0) {
      const std::uint32_t id = take_one(pool);
      const std::size_t bytes = 1 + random() % (random() % 50 == 0 ? 9'000'000 : 300'000);
      const auto memory = pool.memory(id, bytes);
      REQUIRE(memory.size() >= bytes);
      REQUIRE(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 == 0);
      std::memset(memory.data(), static_cast<int>(id), 1);
      std::memset(memory.data() + bytes - 1, static_cast<int>(id), 1);
      for (const auto& [other, span] : held) REQUIRE((memory.data() + memory.size() <= span.data() || span.data() + span.size() <= memory.data()));
      held[id] = memory.first(bytes);
    } else if (!held.empty()) {
      const auto chosen = std::next(held.begin(), static_cast<std::ptrdiff_t>(random() % held.size()));
      REQUIRE(chosen->second.front() == static_cast<std::byte>(chosen->first));
      REQUIRE(chosen->second.back() == static_cast<std::byte>(chosen->first));
      give_back(pool, chosen->first);
      held.erase(chosen);
    }
    REQUIRE(pool.free_places() == pool.capacity() - held.size());
  }
  std::vector<std::uint32_t> too_many(pool.free_places() + 1);
  CHECK_FALSE(pool.take(too_many));
  CHECK(pool.free_places() == pool.capacity() - held.size());
}

TEST_CASE("the arena is not a fifth larger than the most that was held at once, however much sizes differ") {
  BufferPool pool(64);
  std::minstd_rand random(11);
  std::lognormal_distribution<double> sizes(11.4, 0.5);  // photographs: 100 KB, a few of them a megabyte
  std::vector<std::pair<std::uint32_t, std::size_t>> held;
  std::size_t bytes_held = 0, most_held = 0;
  for (int step = 0; step < 50'000; ++step) {
    if (held.size() == pool.capacity()) {
      std::swap(held[random() % held.size()], held.back());
      bytes_held -= held.back().second;
      give_back(pool, held.back().first);
      held.pop_back();
    }
    const auto bytes = static_cast<std::size_t>(std::clamp(sizes(random), 1000.0, 2e6));
    held.emplace_back(take_one(pool), bytes);
    REQUIRE_FALSE(pool.memory(held.back().first, bytes).empty());
    bytes_held += bytes;
    most_held = std::max(most_held, bytes_held);
  }
  CHECK(static_cast<double>(pool.arena_bytes()) <= 1.2 * static_cast<double>(most_held));
}

TEST_CASE("memory for a sample that no machine has is refused, and the place works on") {
  BufferPool pool(1);
  const std::uint32_t id = take_one(pool);
  CHECK(pool.memory(id, std::size_t{1} << 60).empty());
  CHECK(pool.memory(id, 5'000'000).size() >= 5'000'000);
  CHECK(pool.memory(id, 10).size() >= 10);
}

TEST_CASE("of the files that are kept, the one unused for longest goes first, and none in use") {
  KeptFiles kept(2);
  const std::size_t first = kept.assign(10);
  const std::size_t second = kept.assign(20);
  kept.pin(first);
  CHECK(kept.unpin(first) == 0);
  CHECK(kept.find(20) == second);
  CHECK(kept.assign(30) == second);  // 10 was used after 20 came
  CHECK(kept.find(20) == KeptFiles::nowhere);
  kept.pin(first);
  kept.pin(second);
  CHECK(kept.assign(40) == KeptFiles::nowhere);
  kept.forget(first);
  CHECK(kept.find(10) == KeptFiles::nowhere);
  CHECK(kept.assign(40) == KeptFiles::nowhere);  // forgotten, and in use still
  CHECK(kept.unpin(first) == 0);
  CHECK(kept.assign(40) == first);
  CHECK(KeptFiles::most_files() <= 64);
}

TEST_CASE("stretches that are dropped behind cover the file up to the reads that may be in flight, and nothing of those") {
  DropMark mark;
  constexpr std::uint64_t span = 4 << 20;
  constexpr std::uint64_t length = 100'000;
  std::uint64_t dropped = 0;
  for (std::uint64_t offset = 512; offset < (200U << 20); offset += length) {
    const DropMark::Stretch stretch = mark.passed(offset, span);
    if (stretch.length == 0) continue;
    CHECK(stretch.begin <= dropped);
    dropped = stretch.begin + stretch.length;
    CHECK(dropped % 4096 == 0);
    CHECK(dropped <= offset - span);
  }
  CHECK(dropped >= (180U << 20));
  CHECK(mark.passed(512, span).length == 0);  // the next epoch
  CHECK(mark.passed(40 << 20, span).begin == 0);
}

}  // namespace
}  // namespace dsanalyze
