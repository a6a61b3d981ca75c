#include "core/cache_policy/cache_policy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <list>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "policy_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

constexpr std::array all_kinds = {CacheKind::minio, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux};

// Least recently used, as one would write it on a blackboard.
class PlainLru {
 public:
  explicit PlainLru(Bytes capacity) : m_capacity(capacity) {}

  CacheDecision access(std::uint64_t key, Bytes bytes, std::vector<std::uint64_t>& evicted) {
    const auto found = std::find_if(m_items.begin(), m_items.end(), [key](const Item& item) { return item.key == key; });
    if (found != m_items.end()) {
      m_items.splice(m_items.begin(), m_items, found);
      return CacheDecision::hit;
    }
    if (bytes > m_capacity) return CacheDecision::bypass;
    while (held() + bytes > m_capacity) {
      evicted.push_back(m_items.back().key);
      m_items.pop_back();
    }
    m_items.push_front({key, bytes});
    return CacheDecision::admit;
  }
  void forget(std::uint64_t key) {
    m_items.remove_if([key](const Item& item) { return item.key == key; });
  }
  [[nodiscard]] Bytes held() const {
    return std::accumulate(m_items.begin(), m_items.end(), Bytes{0}, [](Bytes sum, const Item& item) { return sum + item.bytes; });
  }
  [[nodiscard]] std::size_t items() const { return m_items.size(); }

 private:
  struct Item {
    std::uint64_t key;
    Bytes bytes;
  };
  Bytes m_capacity;
  std::list<Item> m_items;
};

}  // namespace

TEST_CASE("a MinIO cache gives as many hits an epoch as it holds items") {
  const std::vector<Bytes> sizes = random_sizes(3, 2000);
  const Bytes total = std::accumulate(sizes.begin(), sizes.end(), Bytes{0});
  for (const double fraction : {0.0, 0.25, 0.35, 0.5, 0.8, 1.0, 2.0}) {
    CAPTURE(fraction);
    PolicyRig cache(CacheKind::minio, static_cast<Bytes>(fraction * static_cast<double>(total)), sizes.size());
    CHECK(cache.hits_of(epoch_order(0, sizes.size()), sizes) == 0);
    const std::uint64_t held = cache.policy->items_held();
    CHECK(cache.policy->bytes_held() <= cache.policy->capacity());
    if (fraction >= 1) CHECK(held == sizes.size());
    if (fraction > 0 && fraction < 1) CHECK(cache.policy->bytes_held() > cache.policy->capacity() - 201'000);
    for (std::uint64_t epoch = 1; epoch < 4; ++epoch) CHECK(cache.hits_of(epoch_order(epoch, sizes.size()), sizes) == held);
    CHECK(cache.policy->items_held() == held);
    CHECK(cache.evicted.empty());
  }
}

TEST_CASE("with items of one size MinIO holds as many as fit, to the byte") {
  for (const Bytes spare : {Bytes{0}, Bytes{99}}) {
    PolicyRig cache(CacheKind::minio, 35'000 + spare, 1000);
    const std::vector<Bytes> sizes(1000, 100);
    cache.hits_of(epoch_order(0, 1000), sizes);
    CHECK(cache.policy->items_held() == 350);
    CHECK(cache.policy->bytes_held() == 35'000);
    CHECK(cache.hits_of(epoch_order(1, 1000), sizes) == 350);
  }
}

TEST_CASE("MinIO still admits a smaller item after a larger one did not fit") {
  PolicyRig cache(CacheKind::minio, 100, 4);
  CHECK(cache.access(0, 70) == CacheDecision::admit);
  CHECK(cache.access(1, 40) == CacheDecision::bypass);
  CHECK(cache.access(2, 30) == CacheDecision::admit);
  CHECK(cache.access(3, 0) == CacheDecision::admit);
  CHECK(cache.access(3, 0) == CacheDecision::hit);
  CHECK(cache.access(1, 40) == CacheDecision::bypass);
}

TEST_CASE("what a cache forgets is free again and missed") {
  for (const CacheKind kind : all_kinds) {
    CAPTURE(cache_kind_name(kind));
    PolicyRig cache(kind, 100, 4);
    cache.access(0, 60);
    cache.access(1, 40);
    cache.policy->forget(0);
    CHECK(cache.policy->items_held() == 1);
    CHECK(cache.policy->bytes_held() == 40);
    cache.policy->forget(0);
    cache.policy->forget(3);
    CHECK(cache.policy->bytes_held() == 40);
    CHECK(cache.access(2, 60) == CacheDecision::admit);
    CHECK(cache.access(1, 40) == CacheDecision::hit);
    CHECK(cache.evicted.empty());
    cache.policy->clear();
    CHECK(cache.policy->items_held() == 0);
    CHECK(cache.policy->bytes_held() == 0);
    CHECK(cache.access(1, 40) == CacheDecision::admit);
  }
}

TEST_CASE("LRU finds nothing in a sequential scan that is larger than the cache") {
  PolicyRig cache(CacheKind::lru, 9900, 100);
  const std::vector<std::uint32_t> scan = file_order(100);
  const std::vector<Bytes> sizes(100, 100);
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(cache.hits_of(scan, sizes) == 0);
  PolicyRig larger(CacheKind::lru, 10'000, 100);
  larger.hits_of(scan, sizes);
  CHECK(larger.hits_of(scan, sizes) == 100);
}

TEST_CASE("LRU decides and evicts as a plain list does on random traces") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed);
    const std::vector<Bytes> sizes = random_sizes(seed, 60);
    const Bytes capacity = 150'000 + random.below(3'000'000);
    PolicyRig cache(CacheKind::lru, capacity, sizes.size());
    PlainLru plain(capacity);
    std::vector<std::uint64_t> plain_evicted;
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t key = random.below(sizes.size());
      if (random.below(20) == 0) {
        cache.policy->forget(key);
        plain.forget(key);
      } else {
        REQUIRE(cache.access(key, sizes[key]) == plain.access(key, sizes[key], plain_evicted));
      }
      REQUIRE(cache.policy->bytes_held() == plain.held());
      REQUIRE(cache.policy->items_held() == plain.items());
    }
    CHECK(cache.evicted == plain_evicted);
    CHECK_FALSE(cache.evicted.empty());
  }
}

// The log has room for two uses a key: what is outdated is cleared many times over in these.
TEST_CASE("LRU keeps its order however often its log is cleared of outdated uses") {
  for (const std::uint64_t keys : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, std::uint64_t{64}}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(keys);
      CAPTURE(seed);
      RandomStream random(seed);
      const Bytes capacity = random.below(2 * keys) + 1;
      PolicyRig cache(CacheKind::lru, capacity, keys);
      PlainLru plain(capacity);
      std::vector<std::uint64_t> plain_evicted;
      for (int step = 0; step < 2000; ++step) {
        const std::uint64_t key = random.below(keys);
        REQUIRE(cache.access(key, 1 + key % 2) == plain.access(key, 1 + key % 2, plain_evicted));
      }
      CHECK(cache.evicted == plain_evicted);
    }
  }
}

TEST_CASE("a process killed at any point of a use leaves LRU's order as it was before or after it") {
  const std::vector<Bytes> sizes = random_sizes(21, 40);
  constexpr Bytes capacity = 2'000'000;
  constexpr std::size_t header = 192;
  PolicyRig cache(CacheKind::lru, capacity, sizes.size());
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) cache.hits_of(epoch_order(epoch, sizes.size()), sizes);
  // Who was used is in the log, but not in its entry yet: the slot is outdated, and the order that of before.
  PolicyState killed(cache.state.bytes().size());
  std::memcpy(killed.bytes().data(), cache.state.bytes().data(), killed.bytes().size());
  std::uint64_t begin = 0, used = 0;
  std::memcpy(&begin, killed.bytes().data() + 120, 8);
  std::memcpy(&used, killed.bytes().data() + 128, 8);
  REQUIRE(used < 2 * sizes.size());
  const std::uint64_t slot = (begin + used) % (2 * sizes.size());
  const std::uint32_t key = 3;
  std::memcpy(killed.bytes().data() + header + sizes.size() * 16 + slot * 4, &key, 4);
  ++used;
  std::memcpy(killed.bytes().data() + 128, &used, 8);

  const auto mended = make_cache_policy(CacheKind::lru, capacity, sizes.size(), killed.bytes());
  cache.evicted.clear();
  std::vector<std::uint64_t> evicted;
  for (const std::uint32_t next : epoch_order(9, sizes.size())) {
    const CacheAccess one{next, sizes[next], 0, 0};
    CacheDecision decision{};
    mended->access({&one, 1}, {&decision, 1}, evicted);
    REQUIRE(decision == cache.access(next, sizes[next]));
  }
  CHECK(evicted == cache.evicted);
  CHECK_FALSE(evicted.empty());
}

TEST_CASE("an item larger than the whole cache throws nothing out") {
  for (const CacheKind kind : all_kinds) {
    CAPTURE(cache_kind_name(kind));
    PolicyRig cache(kind, 100, 3);
    cache.access(0, 50);
    CHECK(cache.access(1, 101) == CacheDecision::bypass);
    CHECK(cache.access(0, 50) == CacheDecision::hit);
    CHECK(cache.evicted.empty());
  }
}

TEST_CASE("whatever the trace, a cache never exceeds its capacity, and what it evicts it held") {
  for (const CacheKind kind : all_kinds) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(cache_kind_name(kind));
      CAPTURE(seed);
      RandomStream random(seed);
      const std::vector<Bytes> sizes = random_sizes(seed, 60);
      PolicyRig cache(kind, 150'000 + random.below(3'000'000), sizes.size());
      std::vector<bool> held(sizes.size());
      for (int step = 0; step < 3000; ++step) {
        const std::uint64_t key = random.below(sizes.size());
        cache.evicted.clear();
        if (random.below(20) == 0) {
          cache.policy->forget(key);
          held[key] = false;
        } else {
          const CacheDecision decision = cache.access(key, sizes[key]);
          REQUIRE((decision == CacheDecision::hit) == held[key]);
          for (const std::uint64_t evicted : cache.evicted) {
            REQUIRE(held[evicted]);
            held[evicted] = false;
          }
          if (decision == CacheDecision::admit) held[key] = true;
        }
        Bytes bytes = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) bytes += held[i] ? sizes[i] : 0;
        REQUIRE(cache.policy->bytes_held() == bytes);
        REQUIRE(cache.policy->bytes_held() <= cache.policy->capacity());
        REQUIRE(cache.policy->items_held() == static_cast<std::uint64_t>(std::count(held.begin(), held.end(), true)));
      }
    }
  }
}

TEST_CASE("a MinIO cache with a least priority admits what reaches it, and nothing else") {
  PolicyRig cache(CacheKind::minio, 100, 8, 0.5F);
  CHECK(cache.access(0, 10, 0.499999F) == CacheDecision::bypass);
  CHECK(cache.access(1, 10, 0.5F) == CacheDecision::admit);
  CHECK(cache.access(2, 10, 7) == CacheDecision::admit);
  CHECK(cache.access(3, 10, std::numeric_limits<float>::quiet_NaN()) == CacheDecision::bypass);
  CHECK(cache.access(1, 10, 0) == CacheDecision::hit);
  CHECK(cache.access(4, 81, 7) == CacheDecision::bypass);
}

TEST_CASE("without a least priority MinIO admits first come, whatever is said of priorities") {
  PolicyRig cache(CacheKind::minio, 100, 3);
  CHECK(cache.access(0, 10, std::numeric_limits<float>::quiet_NaN()) == CacheDecision::admit);
  CHECK(cache.access(1, 10, -1) == CacheDecision::admit);
  CHECK(cache.access(2, 10, 0) == CacheDecision::admit);
}

TEST_CASE("a group of accesses is decided as if one came after the other") {
  for (const CacheKind kind : all_kinds) {
    CAPTURE(cache_kind_name(kind));
    const std::vector<Bytes> sizes = random_sizes(5, 300);
    PolicyRig one_by_one(kind, 9'000'000, sizes.size());
    PolicyRig grouped(kind, 9'000'000, sizes.size());
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<CacheAccess> group;
      std::vector<CacheDecision> expected;
      for (const std::uint32_t key : epoch_order(epoch, sizes.size())) {
        group.push_back({key, sizes[key], 0, 0});
        expected.push_back(one_by_one.access(key, sizes[key]));
      }
      std::vector<CacheDecision> decisions(group.size());
      grouped.policy->access(group, decisions, grouped.evicted);
      CHECK(decisions == expected);
    }
    CHECK(grouped.evicted == one_by_one.evicted);
  }
}

TEST_CASE("a cache's state goes on at another address with equal decisions") {
  for (const CacheKind kind : all_kinds) {
    CAPTURE(cache_kind_name(kind));
    const std::vector<Bytes> sizes = random_sizes(9, 500);
    constexpr Bytes capacity = 15'000'000;
    PolicyRig original(kind, capacity, sizes.size());
    original.hits_of(epoch_order(0, sizes.size()), sizes);

    PolicyState moved(original.state.bytes().size());
    std::memcpy(moved.bytes().data(), original.state.bytes().data(), moved.bytes().size());
    const auto policy = make_cache_policy(kind, capacity, sizes.size(), moved.bytes());
    CHECK(policy->items_held() == original.policy->items_held());
    CHECK(policy->bytes_held() == original.policy->bytes_held());

    original.evicted.clear();
    std::vector<std::uint64_t> evicted;
    for (const std::uint32_t key : epoch_order(1, sizes.size())) {
      const CacheAccess one{key, sizes[key], 0, 0};
      CacheDecision decision{};
      policy->access({&one, 1}, {&decision, 1}, evicted);
      REQUIRE(decision == original.access(key, sizes[key]));
    }
    CHECK(evicted == original.evicted);
  }
}

TEST_CASE("counters and links that a killed process left half-written are repaired") {
  for (const CacheKind kind : all_kinds) {
    CAPTURE(cache_kind_name(kind));
    const std::vector<Bytes> sizes = random_sizes(13, 200);
    constexpr Bytes capacity = 8'000'000;
    PolicyRig cache(kind, capacity, sizes.size());
    cache.hits_of(epoch_order(0, sizes.size()), sizes);
    const std::uint64_t items = cache.policy->items_held();
    const Bytes bytes = cache.policy->bytes_held();
    // Of the header: bytes held, items held, both ends of the inactive list, then both ends and the bytes of the active one, then LRU's log.
    constexpr std::ptrdiff_t header = 192;
    const std::span<std::byte> state = cache.state.bytes();
    std::fill(state.begin() + 32, state.begin() + 56, std::byte{0x5a});
    std::fill(state.begin() + 72, state.begin() + 88, std::byte{0x5a});
    std::fill(state.begin() + 120, state.begin() + 136, std::byte{0x5a});
    if (kind == CacheKind::minio) {  // the bitmap, behind the entries
      std::fill(state.begin() + header + std::ptrdiff_t{200} * 8, state.end(), std::byte{0x5a});
    } else {
      // Of the first key's entry the last eight bytes: its links, its place in the array and the key that stands at the array's first place, or its
      // slot in the log.
      const std::size_t entry = kind == CacheKind::page_model_linux ? 24 : 16;
      std::fill_n(state.begin() + header + static_cast<std::ptrdiff_t>(entry - 8), 8, std::byte{0x5a});
    }
    if (kind == CacheKind::lru) std::fill(state.begin() + header + std::ptrdiff_t{200} * 16, state.end(), std::byte{0x5a});

    const auto policy = make_cache_policy(kind, capacity, sizes.size(), state);
    CHECK(policy->items_held() == items);
    CHECK(policy->bytes_held() == bytes);
    std::vector<std::uint64_t> evicted;
    for (std::uint64_t key = 0; key < sizes.size(); ++key) {
      const CacheAccess one{key, sizes[key], 0, 0};
      CacheDecision decision{};
      policy->access({&one, 1}, {&decision, 1}, evicted);
      CHECK(policy->bytes_held() <= capacity);
    }
    if (kind != CacheKind::minio) {
      std::sort(evicted.begin(), evicted.end());
      CHECK_FALSE(evicted.empty());
      CHECK(evicted.back() < sizes.size());
    }
  }
}

TEST_CASE("a state that belongs to another cache, or to none, is refused") {
  PolicyState state(cache_policy_state_bytes(CacheKind::minio, 100));
  make_cache_policy(CacheKind::minio, 1000, 100, state.bytes());
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1001, 100, state.bytes()), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 99, state.bytes()), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::lru, 1000, 40, state.bytes()), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 101, state.bytes()), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 10, state.bytes().subspan(8)), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 100, state.bytes(), 0.5F), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 100, state.bytes(), -1), Error);
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 100, state.bytes(), std::numeric_limits<float>::quiet_NaN()), Error);
  state.bytes()[0] = std::byte{1};
  CHECK_THROWS_AS(make_cache_policy(CacheKind::minio, 1000, 100, state.bytes()), Error);
}

TEST_CASE("none and page hold nothing and need no state") {
  for (const CacheKind kind : {CacheKind::none, CacheKind::page}) {
    PolicyRig cache(kind, 1'000'000, 10);
    CHECK(cache_policy_state_bytes(kind, 10) == 0);
    CHECK(cache.access(1, 10) == CacheDecision::bypass);
    CHECK(cache.access(1, 10) == CacheDecision::bypass);
    CHECK(cache.policy->items_held() == 0);
  }
}

TEST_CASE("cache names read back, and a typing mistake gets a suggestion") {
  for (const CacheKind kind : {CacheKind::none, CacheKind::page}) CHECK(parse_cache_kind(cache_kind_name(kind)) == kind);
  for (const CacheKind kind : all_kinds) CHECK(parse_cache_kind(cache_kind_name(kind)) == kind);
  CHECK(cache_kind_name(CacheKind::page_model_linux) == "page-model:linux");
  CHECK_THROWS_WITH_AS(parse_cache_kind("minoi"), doctest::Contains("did you mean minio?"), UsageError);
  CHECK_THROWS_WITH_AS(parse_cache_kind("page-model:linus"), doctest::Contains("did you mean page-model:linux?"), UsageError);
}
