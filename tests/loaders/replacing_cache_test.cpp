#include "loaders/cache/replacing_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t replayed_samples = 64;
constexpr std::array replacing_kinds = {CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux};

std::uint32_t length_of(std::uint64_t key) { return static_cast<std::uint32_t>(100 + key * 37 % 900); }

Bytes dataset_bytes() {
  Bytes bytes = 0;
  for (std::uint64_t key = 0; key < replayed_samples; ++key) bytes += length_of(key);
  return bytes;
}

std::vector<std::byte> content_of_length(std::uint64_t key, std::uint32_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(key * 31 + i * 7 + i / 64);
  return bytes;
}

CacheLookup look_up_sized(RawCache& cache, std::uint64_t key, Bytes bytes) {
  const CacheAccess access{key, bytes, 0, 0};
  CacheLookup lookup;
  cache.lookup({&access, 1}, {&lookup, 1});
  return lookup;
}

bool right(const RawCache& cache, const CacheLookup& hit, std::uint32_t length) {
  std::vector<std::byte> scratch(length);
  return hit.length == length && std::ranges::equal(cache.read(hit, scratch), content_of_length(hit.key, length));
}

TEST_CASE("an LRU cache delivers the right bytes, also of a sample that was evicted while it is being read") {
  ReplacingCache cache({CacheKind::lru, 3000, replayed_samples, dataset_bytes(), 1000, 4});
  const auto keep = [&](std::uint64_t key) {
    REQUIRE(look_up_sized(cache, key, length_of(key)).decision == CacheDecision::admit);
    REQUIRE(cache.store(key, content_of_length(key, length_of(key))).ok());
  };
  // Many rounds: blocks that were not given back would run out.
  for (std::uint64_t round = 0; round < 200; ++round) {
    const std::uint64_t key = round % replayed_samples;
    if (look_up_sized(cache, key, length_of(key)).decision == CacheDecision::admit)
      REQUIRE(cache.store(key, content_of_length(key, length_of(key))).ok());
    const std::array pinned = {look_up_sized(cache, key, length_of(key)), look_up_sized(cache, key, length_of(key))};
    REQUIRE(pinned[0].decision == CacheDecision::hit);
    REQUIRE(pinned[1].decision == CacheDecision::hit);
    for (std::uint64_t i = 1; i <= 30; ++i) keep((key + i) % replayed_samples);  // far more than fits
    const CacheLookup again = look_up_sized(cache, key, length_of(key));
    CHECK(again.decision == CacheDecision::admit);  // evicted, yet:
    CHECK(right(cache, pinned[0], length_of(key)));
    REQUIRE(cache.store(key, content_of_length(key, length_of(key))).ok());  // its second copy takes other blocks
    cache.release(std::span(pinned).first(1));
    CHECK(right(cache, pinned[1], length_of(key)));
    cache.release(std::span(pinned).last(1));
    const CacheLookup second = look_up_sized(cache, key, length_of(key));
    REQUIRE(second.decision == CacheDecision::hit);
    CHECK(right(cache, second, length_of(key)));
    cache.release({&second, 1});
  }
}

TEST_CASE("a cache that replaces has the hits that its policy alone has, with the right bytes") {
  for (const CacheKind kind : replacing_kinds) {
    CAPTURE(cache_kind_name(kind));
    const Bytes capacity = dataset_bytes() * 65 / 100;
    ReplacingCache cache({kind, capacity, replayed_samples, dataset_bytes(), 1000, 4});
    std::vector<std::byte> memory(cache_policy_state_bytes(kind, replayed_samples) + 64);
    void* state = memory.data();
    std::size_t room = memory.size();
    std::align(64, room - 64, state, room);
    const auto policy = make_cache_policy(kind, capacity, replayed_samples, {static_cast<std::byte*>(state), room});
    std::vector<std::uint64_t> evicted;
    std::uint64_t hits = 0;
    std::vector<std::uint32_t> order(replayed_samples);
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      random_permutation(epoch, order);
      for (const std::uint64_t key : order) {
        const CacheAccess access{key, length_of(key), 0, 0};
        CacheDecision expected{};
        policy->access({&access, 1}, {&expected, 1}, evicted);
        const CacheLookup lookup = look_up_sized(cache, key, length_of(key));
        REQUIRE(lookup.decision == expected);
        if (expected == CacheDecision::admit) REQUIRE(cache.store(key, content_of_length(key, length_of(key))).ok());
        if (expected != CacheDecision::hit) continue;
        ++hits;
        CHECK(right(cache, lookup, length_of(key)));
        cache.release({&lookup, 1});
      }
    }
    CHECK(hits > 100);
    CHECK(cache.totals().bytes == policy->bytes_held());
    CHECK(cache.totals().bytes <= capacity);
  }
}

TEST_CASE("one giant sample does not set the memory of an LRU cache") {
  // A thousand hits in flight of 2^50 bytes each would never fit.
  ReplacingCache cache({CacheKind::lru, 100'000, replayed_samples, dataset_bytes(), std::uint64_t{1} << 50, 1000});
  CHECK(look_up_sized(cache, 1, length_of(1)).decision == CacheDecision::admit);
}

TEST_CASE("when giants that are being read leave no blocks, a sample is not kept, and may come again later") {
  constexpr std::uint32_t giant = 10'000;
  ReplacingCache cache({CacheKind::lru, giant, 100, 2 * giant + 98 * 10, giant, 1});
  REQUIRE(look_up_sized(cache, 0, giant).decision == CacheDecision::admit);
  REQUIRE(cache.store(0, content_of_length(0, giant)).ok());
  const CacheLookup pinned = look_up_sized(cache, 0, giant);
  REQUIRE(pinned.decision == CacheDecision::hit);
  REQUIRE(look_up_sized(cache, 1, giant).decision == CacheDecision::admit);
  CHECK(cache.store(1, content_of_length(1, giant)).code == StatusCode::busy);
  CHECK(cache.totals().items == 0);
  CHECK(right(cache, pinned, giant));
  cache.release({&pinned, 1});
  REQUIRE(look_up_sized(cache, 1, giant).decision == CacheDecision::admit);
  CHECK(cache.store(1, content_of_length(1, giant)).ok());
}

TEST_CASE("an LRU cache refuses keys that are no sample's, and more bytes than it admitted") {
  ReplacingCache cache({CacheKind::lru, 3000, replayed_samples, dataset_bytes(), 1000, 4});
  CHECK(look_up_sized(cache, replayed_samples, 10).decision == CacheDecision::bypass);
  REQUIRE(look_up_sized(cache, 1, 100).decision == CacheDecision::admit);
  CHECK(cache.store(1, content_of_length(1, 101)).code == StatusCode::corrupt);
  CHECK(look_up_sized(cache, 1, 100).decision == CacheDecision::admit);
}

TEST_CASE("threads that read, store and release while others evict always get the right bytes") {
  for (const CacheKind kind : replacing_kinds) {
    CAPTURE(cache_kind_name(kind));
    constexpr std::size_t group = 8;
    constexpr std::uint64_t threads = 4;
    ReplacingCache cache({kind, dataset_bytes() / 3, replayed_samples, dataset_bytes(), 1000, threads * group});
    std::mutex lookups_one_at_a_time;
    std::atomic<std::uint64_t> hits{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> abandoned{0};
    const auto work = [&](std::uint64_t seed) {
      std::array<CacheAccess, group> accesses{};
      std::array<CacheLookup, group> lookups{};
      for (std::uint64_t round = 0; round < 1000; ++round) {
        for (std::size_t i = 0; i < group; ++i) {
          const std::uint64_t key = mix(seed * 1'000'003 + round * group + i) % replayed_samples;
          accesses[i] = {key, length_of(key), 0, 0};
        }
        {
          const std::scoped_lock lock(lookups_one_at_a_time);
          cache.lookup(accesses, lookups);
        }
        for (const CacheLookup& lookup : lookups) {
          if (lookup.decision == CacheDecision::hit) {
            hits.fetch_add(1);
            if (!right(cache, lookup, length_of(lookup.key))) wrong.fetch_add(1);
            cache.release({&lookup, 1});
          } else if (lookup.decision == CacheDecision::admit && lookup.key % 7 == round % 7) {
            abandoned.fetch_add(1);
            cache.abandon(lookup.key);
          } else if (lookup.decision == CacheDecision::admit) {
            if (!cache.store(lookup.key, content_of_length(lookup.key, length_of(lookup.key))).ok()) wrong.fetch_add(1);
          }
        }
      }
    };
    {
      std::vector<std::jthread> running;
      for (std::uint64_t seed = 1; seed <= threads; ++seed) running.emplace_back(work, seed);
    }
    CHECK(wrong.load() == 0);
    CHECK(hits.load() > 1000);
    CHECK(abandoned.load() > 100);
  }
}

}  // namespace
}  // namespace dsanalyze
