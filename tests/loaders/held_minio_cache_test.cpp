#include "loaders/server/held_minio_cache.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <thread>

#include "base/random.hpp"
#include "server_processes.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

/// The holder's cache with its parts in the open.
struct Parts {
  explicit Parts(const CacheOptions& options) : ledger(options) {
    slabs.keep(0, std::make_unique<Slab>(make_slab_segment(ledger.directory().slab_bytes(Slab::alignment))));
    cache = std::make_unique<HeldMinioCache>(ledger, slabs);
  }
  [[nodiscard]] std::size_t resident_bytes() const {
    return ledger.directory().segment().resident_bytes() + slabs.find(0)->segment().resident_bytes();
  }

  MinioLedger ledger;
  SlabTable slabs;
  std::unique_ptr<HeldMinioCache> cache;
};

TEST_CASE("hits, and misses of a full cache, are answered without the ledger and its lock") {
  Parts parts(minio(Bytes{37} * sample_bytes));
  fill(*parts.cache, 0, server_samples);
  const std::uint64_t decided = parts.ledger.decided();
  CHECK(decided >= 37);
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(fill(*parts.cache, 0, server_samples) == 37);
  CHECK(parts.ledger.decided() == decided);
}

TEST_CASE("misses below the least priority are answered without the ledger, also while there is room") {
  CacheOptions options = minio(all_bytes);
  options.least_priority = 0.5F;
  Parts parts(options);
  for (const float priority : {0.0F, 0.49F, -1.0F, std::numeric_limits<float>::quiet_NaN()})
    CHECK(look_up(*parts.cache, 3, priority).decision == CacheDecision::bypass);
  CHECK(parts.ledger.decided() == 0);
  CHECK(look_up(*parts.cache, 3, 0.5F).decision == CacheDecision::admit);
  CHECK(parts.cache->store(3, content_of(3)).ok());
  CHECK(look_up(*parts.cache, 3, 0).decision == CacheDecision::hit);
}

TEST_CASE("a large group of hits and misses in any order is decided as one by one") {
  Parts grouped(minio(all_bytes / 2));
  Parts one_by_one(minio(all_bytes / 2));
  std::vector<CacheAccess> accesses;
  for (std::uint64_t i = 0; i < 2000; ++i) accesses.push_back({mix(i) % (server_samples + 5), sample_bytes, 0, 0});
  std::vector<CacheLookup> lookups(accesses.size());
  for (int round = 0; round < 2; ++round) {
    grouped.cache->lookup(accesses, lookups);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      CacheLookup alone;
      one_by_one.cache->lookup({&accesses[i], 1}, {&alone, 1});
      REQUIRE(lookups[i].decision == alone.decision);
      REQUIRE(lookups[i].key == accesses[i].key);
    }
    for (Parts* parts : {&grouped, &one_by_one}) {
      for (const CacheLookup& lookup : lookups) {
        if (lookup.decision == CacheDecision::admit) REQUIRE(parts->cache->store(lookup.key, content_of(lookup.key)).ok());
      }
    }
  }
}

TEST_CASE("one thread looks up while others store and abandon: every hit has its sample's bytes, the capacity holds") {
  constexpr std::uint64_t storers = 3;
  Parts parts(minio(all_bytes * 6 / 10));
  std::array<std::vector<std::uint64_t>, storers> admitted;
  std::uint64_t wrong = 0, hits = 0;
  for (std::uint64_t round = 0; round < 30; ++round) {
    std::vector<std::jthread> threads;
    for (std::uint64_t storer = 0; storer < storers; ++storer) {
      threads.emplace_back([&parts, round, keys = std::exchange(admitted[storer], {})] {
        for (const std::uint64_t key : keys) {
          if (mix(key, round) % 3 == 0) {
            parts.cache->abandon(key);
          } else {
            static_cast<void>(parts.cache->store(key, content_of(key)).ok());
          }
        }
      });
    }
    for (std::uint64_t i = 0; i < 300; ++i) {
      const CacheLookup lookup = look_up(*parts.cache, mix(round, i) % server_samples);
      if (lookup.decision == CacheDecision::admit) admitted[lookup.key % storers].push_back(lookup.key);
      if (lookup.decision != CacheDecision::hit) continue;
      ++hits;
      if (!std::ranges::equal(parts.cache->read(lookup, {}), content_of(lookup.key))) ++wrong;
    }
  }
  for (const auto& keys : admitted) {
    for (const std::uint64_t key : keys) parts.cache->abandon(key);
  }
  CHECK(wrong == 0);
  CHECK(hits > 1000);
  CHECK(parts.cache->totals().items == 60);
}

TEST_CASE("a full cache of 64 MiB takes at most 5 % more memory than what it holds") {
  for (const std::uint32_t mean : {110'000U, 10'000U}) {
    CAPTURE(mean);
    constexpr Bytes capacity = Bytes{64} << 20;
    const auto length = [mean](std::uint64_t key) { return mean / 2 + static_cast<std::uint32_t>(mix(key) % mean); };
    const auto samples = static_cast<std::uint32_t>(capacity * 2 / mean);  // half of them fit
    Bytes dataset = 0;
    for (std::uint64_t key = 0; key < samples; ++key) dataset += length(key);
    Parts parts({CacheKind::minio, capacity, samples, dataset, 2ULL * mean, 64});
    const std::vector<std::byte> content(2 * std::size_t{mean});
    for (std::uint64_t key = 0; key < samples; ++key) {
      const CacheAccess access{key, length(key), 0, 0};
      CacheLookup lookup;
      parts.cache->lookup({&access, 1}, {&lookup, 1});
      if (lookup.decision == CacheDecision::admit) REQUIRE(parts.cache->store(key, std::span(content).first(access.bytes)).ok());
    }
    const CacheTotals held = parts.cache->totals();
    CHECK(held.bytes > capacity - mean);
    const auto memory = static_cast<double>(parts.resident_bytes() + cache_policy_state_bytes(CacheKind::minio, samples));
    CHECK(memory / static_cast<double>(held.bytes) <= 1.05);
    CHECK(memory / static_cast<double>(held.bytes) >= 1);
  }
}

}  // namespace
}  // namespace dsanalyze
