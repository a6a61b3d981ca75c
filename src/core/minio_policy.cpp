#include <algorithm>

#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

class MinioPolicy final : public CachePolicy {
 public:
  MinioPolicy(CachePolicyHeader& header, std::span<MinioEntry> entries) : m_header(&header), m_entries(entries) {
    header.items_held = 0;
    header.bytes_held = 0;
    for (const MinioEntry entry : entries) {
      if (entry == 0) continue;
      ++header.items_held;
      header.bytes_held += entry - 1;
    }
  }

  void access(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions, std::vector<std::uint64_t>& /*evicted*/) override {
    for (std::size_t i = 0; i < accesses.size(); ++i) decisions[i] = decide(accesses[i]);
  }

  void forget(std::uint64_t key) override {
    MinioEntry& entry = m_entries[key];
    if (entry == 0) return;
    m_header->bytes_held -= entry - 1;
    --m_header->items_held;
    entry = 0;
  }

  void clear() override {
    std::fill(m_entries.begin(), m_entries.end(), MinioEntry{0});
    m_header->bytes_held = 0;
    m_header->items_held = 0;
  }

  [[nodiscard]] std::uint64_t items_held() const override { return m_header->items_held; }
  [[nodiscard]] Bytes bytes_held() const override { return m_header->bytes_held; }
  [[nodiscard]] Bytes capacity() const override { return m_header->capacity; }

 private:
  CacheDecision decide(const CacheAccess& item) {
    MinioEntry& entry = m_entries[item.key];
    if (entry != 0) return CacheDecision::hit;
    if (item.bytes > m_header->capacity - m_header->bytes_held) return CacheDecision::bypass;
    entry = item.bytes + 1;
    m_header->bytes_held += item.bytes;
    ++m_header->items_held;
    return CacheDecision::admit;
  }

  CachePolicyHeader* m_header;
  std::span<MinioEntry> m_entries;
};

}  // namespace

std::unique_ptr<CachePolicy> make_minio_policy(CachePolicyHeader& header, std::span<MinioEntry> entries) {
  return std::make_unique<MinioPolicy>(header, entries);
}

}  // namespace dsanalyze
