#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "core/cache_policy/cache_policy.hpp"

namespace dsanalyze {

/// One sample's place in the cache.
struct CacheLookup {
  CacheDecision decision = CacheDecision::bypass;
  std::uint64_t key = 0;
  const std::byte* contiguous = nullptr;  ///< where a hit's bytes are, when they lie in one piece
  std::uint32_t first_block = 0;          ///< else the first of its blocks
  std::uint32_t length = 0;
};

struct CacheTotals {
  std::uint64_t items = 0;
  Bytes bytes = 0;
  Bytes capacity = 0;
};

/// The server's raw cache as one process sees it: encoded samples in shared segments, decisions by the policy in core.
///
/// lookup() decides a group in the sampler's order. A hit's bytes stay as they are until release(). After an admit exactly one of store() and
/// abandon() must follow; a store() that is not ok has abandoned. An item that is admitted but not stored yet (another process is at it) is a bypass
/// for everyone else, as are keys that are no sample's. Threads: lookup() one at a time; store, abandon, read, release any, at once. MinIO's hits,
/// and misses that it has no room for, are looked up without a lock. No allocation in the steady state; no exceptions.
class RawCache {
 public:
  virtual ~RawCache() = default;
  virtual void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) = 0;
  /// The bytes of a hit: in place, or gathered into `scratch` (at least lookup.length long) when they lie in pieces.
  virtual std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> scratch) const = 0;
  /// Keeps an admitted item: at most as many bytes as its access named. Not kept: busy (no room: memory, or blocks of a cache that replaces, ran
  /// short), corrupt (more bytes than admitted), io (the cache is lost: its holder is gone; or the system refused memory).
  virtual Status store(std::uint64_t key, std::span<const std::byte> bytes) = 0;
  virtual void abandon(std::uint64_t key) = 0;
  virtual void release(std::span<const CacheLookup> hits) = 0;
  [[nodiscard]] virtual CacheTotals totals() const = 0;
};

/// Holds nothing: --cache none, and --cache page, where the kernel does.
class NoCache final : public RawCache {
 public:
  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    for (std::size_t i = 0; i < accesses.size(); ++i) lookups[i] = {CacheDecision::bypass, accesses[i].key, nullptr, 0, 0};
  }
  std::span<const std::byte> read(const CacheLookup& /*hit*/, std::span<std::byte> /*scratch*/) const override { return {}; }
  Status store(std::uint64_t /*key*/, std::span<const std::byte> /*bytes*/) override { return {}; }
  void abandon(std::uint64_t /*key*/) override {}
  void release(std::span<const CacheLookup> /*hits*/) override {}
  [[nodiscard]] CacheTotals totals() const override { return {}; }
};

}  // namespace dsanalyze
