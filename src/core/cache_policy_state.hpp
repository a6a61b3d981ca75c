#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dsanalyze/core/cache_policy.hpp"

namespace dsanalyze {

/// First bytes of every policy's state. All zero before the first policy is made over it; relocatable.
struct CachePolicyHeader {
  std::uint64_t initialised = 0;  ///< cache_policy_mark once it is
  std::uint64_t kind = 0;
  std::uint64_t key_count = 0;
  Bytes capacity = 0;
  Bytes bytes_held = 0;
  std::uint64_t items_held = 0;
  std::uint32_t most_recent = 0;  ///< LRU only: key + 1, 0 for none
  std::uint32_t least_recent = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(CachePolicyHeader) == 64);
constexpr std::uint64_t cache_policy_mark = 0x3179636c6f706364;

/// One entry a key of MinIO: the item's bytes + 1 while it is held, else 0.
using MinioEntry = std::uint64_t;

/// One entry a key of LRU: a list from the most to the least recently used, linked by key + 1 (0: none).
struct LruEntry {
  std::uint64_t bytes_plus_one = 0;  ///< 0 while the item is not held
  std::uint32_t newer = 0;
  std::uint32_t older = 0;
};
static_assert(sizeof(LruEntry) == 16);

// The tables have one entry for each of header.key_count keys. Both constructors take over what the state holds: counters, and LRU's links, are
// brought in line with the entries, which a process killed in the middle of a call may have left behind.
std::unique_ptr<CachePolicy> make_minio_policy(CachePolicyHeader& header, std::span<MinioEntry> entries);
std::unique_ptr<CachePolicy> make_lru_policy(CachePolicyHeader& header, std::span<LruEntry> entries);

}  // namespace dsanalyze
