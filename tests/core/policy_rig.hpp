#pragma once

#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "core/cache_policy/cache_policy.hpp"

namespace dsanalyze::testing {

/// Zeroed, 64-byte aligned memory.
class PolicyState {
 public:
  explicit PolicyState(std::size_t bytes) : m_memory(bytes / 64 + 1), m_bytes(bytes) {}
  std::span<std::byte> bytes() { return {m_memory.data()->bytes, m_bytes}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::vector<Line> m_memory;
  std::size_t m_bytes;
};

/// A policy with its state, one access at a time.
struct PolicyRig {
  PolicyRig(CacheKind kind, Bytes capacity, std::uint64_t keys, float least_priority = 0)
      : state(cache_policy_state_bytes(kind, keys)), policy(make_cache_policy(kind, capacity, keys, state.bytes(), least_priority)) {}

  CacheDecision access(std::uint64_t key, Bytes bytes, float priority = 0) {
    const CacheAccess one{key, bytes, 0, priority};
    CacheDecision decision{};
    policy->access({&one, 1}, {&decision, 1}, evicted);
    return decision;
  }

  std::uint64_t hits_of(const std::vector<std::uint32_t>& order, const std::vector<Bytes>& sizes) {
    std::uint64_t hits = 0;
    for (const std::uint32_t key : order) hits += access(key, sizes[key]) == CacheDecision::hit ? 1 : 0;
    return hits;
  }

  PolicyState state;
  std::unique_ptr<CachePolicy> policy;
  std::vector<std::uint64_t> evicted;
};

/// Of a replay whose share of misses is to settle within half a percent.
constexpr std::uint32_t page_model_items = 20'000;

inline std::vector<std::uint32_t> epoch_order(std::uint64_t epoch, std::size_t samples) {
  std::vector<std::uint32_t> order(samples);
  random_permutation(epoch, order);
  return order;
}

inline std::vector<std::uint32_t> file_order(std::size_t samples) {
  std::vector<std::uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

inline std::vector<Bytes> random_sizes(std::uint64_t seed, std::size_t samples) {
  RandomStream random(seed);
  std::vector<Bytes> sizes(samples);
  for (Bytes& size : sizes) size = 1000 + random.below(200'000);
  return sizes;
}

}  // namespace dsanalyze::testing
