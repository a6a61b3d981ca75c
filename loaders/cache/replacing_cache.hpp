#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "cache.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {

/// A cache of one process under a policy that replaces (LRU, page models): samples lie in chains of small blocks, so that any mix of sizes fits
/// without moving anything; a hit is gathered into the reader's scratch. Blocks of an evicted sample that is still being read are freed with its last
/// release; there is room beside the capacity for such samples, and should it run out (many far larger than the mean at once), a sample that was
/// admitted is not kept (store: busy).
class ReplacingCache final : public RawCache {
 public:
  explicit ReplacingCache(const CacheOptions& options);

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override;
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> scratch) const override;
  Status store(std::uint64_t key, std::span<const std::byte> bytes) override;
  void abandon(std::uint64_t key) override;
  void release(std::span<const CacheLookup> hits) override;
  [[nodiscard]] CacheTotals totals() const override;

 private:
  static constexpr std::uint32_t no_block = UINT32_MAX;
  static constexpr Bytes most_item_bytes = UINT32_MAX;
  enum class ItemState : std::uint8_t { absent, awaited, stored };
  struct Item {
    std::uint32_t first_block = no_block;
    std::uint32_t length = 0;  // of an awaited one: as admitted
    ItemState state = ItemState::absent;
  };
  struct Chain {
    std::uint32_t readers : 31 = 0;
    std::uint32_t evicted : 1 = 0;
  };
  void drop(std::uint64_t key);
  void free_chain(std::uint32_t first);
  [[nodiscard]] bool take_chain(std::size_t blocks, std::uint32_t& first);

  std::size_t m_block_bytes;
  mutable std::mutex m_mutex;
  std::vector<std::byte> m_policy_state;
  std::unique_ptr<CachePolicy> m_policy;
  std::vector<std::uint64_t> m_evicted;
  std::vector<Item> m_items;
  std::vector<std::uint32_t> m_next;  // next block of the chain, or of the free list
  std::vector<Chain> m_chains;        // by first block
  std::uint32_t m_free = no_block;
  std::size_t m_free_blocks = 0;
  MemorySegment m_blocks;
};

/// Whether the kind is one that ReplacingCache keeps.
constexpr bool replaces(CacheKind kind) {
  return kind == CacheKind::lru || kind == CacheKind::page_model_random || kind == CacheKind::page_model_linux;
}

}  // namespace dsanalyze
