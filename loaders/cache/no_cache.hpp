#pragma once

#include "cache.hpp"

namespace dsanalyze {

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
