#include <algorithm>
#include <array>

#include "partition.hpp"

namespace dsanalyze {
namespace {

class PartitionedCache final : public RawCache {
 public:
  PartitionedCache(RawCache& cache, const PartitionRules& rules) : m_cache(cache), m_rules(rules) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    std::array<CacheAccess, 256> ranked;
    while (!accesses.empty()) {
      const std::size_t count = std::min(accesses.size(), ranked.size());
      for (std::size_t i = 0; i < count; ++i) {
        ranked[i] = accesses[i];
        ranked[i].priority = m_rules.keeps(static_cast<SampleId>(accesses[i].key)) ? partition_priority : 0;
      }
      m_cache.lookup(std::span(ranked).first(count), lookups.first(count));
      accesses = accesses.subspan(count);
      lookups = lookups.subspan(count);
    }
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> scratch) const override { return m_cache.read(hit, scratch); }
  Status store(std::uint64_t key, std::span<const std::byte> bytes) override { return m_cache.store(key, bytes); }
  void abandon(std::uint64_t key) override { m_cache.abandon(key); }
  void release(std::span<const CacheLookup> hits) override { m_cache.release(hits); }
  [[nodiscard]] CacheTotals totals() const override { return m_cache.totals(); }

 private:
  RawCache& m_cache;
  const PartitionRules& m_rules;
};

}  // namespace

std::unique_ptr<RawCache> make_partitioned_cache(RawCache& cache, const PartitionRules& rules) {
  return std::make_unique<PartitionedCache>(cache, rules);
}

}  // namespace dsanalyze
