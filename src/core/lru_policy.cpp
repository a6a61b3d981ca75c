#include <algorithm>

#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

class LruPolicy final : public CachePolicy {
 public:
  LruPolicy(CachePolicyHeader& header, std::span<LruEntry> entries) : m_header(&header), m_entries(entries) {
    header.items_held = 0;
    header.bytes_held = 0;
    for (const LruEntry& entry : entries) {
      if (entry.bytes_plus_one == 0) continue;
      ++header.items_held;
      header.bytes_held += entry.bytes_plus_one - 1;
    }
    if (!list_is_whole()) relink();
  }

  void access(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions, std::vector<std::uint64_t>& evicted) override {
    for (std::size_t i = 0; i < accesses.size(); ++i) decisions[i] = decide(accesses[i], evicted);
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one != 0) drop(link_of(key));
  }

  void clear() override {
    std::fill(m_entries.begin(), m_entries.end(), LruEntry{});
    m_header->bytes_held = 0;
    m_header->items_held = 0;
    m_header->most_recent = 0;
    m_header->least_recent = 0;
  }

  [[nodiscard]] std::uint64_t items_held() const override { return m_header->items_held; }
  [[nodiscard]] Bytes bytes_held() const override { return m_header->bytes_held; }
  [[nodiscard]] Bytes capacity() const override { return m_header->capacity; }

 private:
  static std::uint32_t link_of(std::uint64_t key) { return static_cast<std::uint32_t>(key) + 1; }
  LruEntry& at(std::uint32_t link) { return m_entries[link - 1]; }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& evicted) {
    const std::uint32_t link = link_of(item.key);
    if (m_entries[item.key].bytes_plus_one != 0) {
      if (m_header->most_recent != link) {
        unlink(link);
        link_first(link);
      }
      return CacheDecision::hit;
    }
    if (item.bytes > m_header->capacity) return CacheDecision::bypass;
    while (item.bytes > m_header->capacity - m_header->bytes_held) {
      evicted.push_back(m_header->least_recent - 1);
      drop(m_header->least_recent);
    }
    m_entries[item.key].bytes_plus_one = item.bytes + 1;
    m_header->bytes_held += item.bytes;
    ++m_header->items_held;
    link_first(link);
    return CacheDecision::admit;
  }

  void link_first(std::uint32_t link) {
    at(link).newer = 0;
    at(link).older = m_header->most_recent;
    if (m_header->most_recent != 0) at(m_header->most_recent).newer = link;
    m_header->most_recent = link;
    if (m_header->least_recent == 0) m_header->least_recent = link;
  }

  void unlink(std::uint32_t link) {
    const LruEntry entry = at(link);
    (entry.newer == 0 ? m_header->most_recent : at(entry.newer).older) = entry.older;
    (entry.older == 0 ? m_header->least_recent : at(entry.older).newer) = entry.newer;
  }

  void drop(std::uint32_t link) {
    unlink(link);
    m_header->bytes_held -= at(link).bytes_plus_one - 1;
    --m_header->items_held;
    at(link) = {};
  }

  bool list_is_whole() {
    std::uint64_t linked = 0;
    std::uint32_t newer = 0;
    std::uint32_t link = m_header->most_recent;
    for (; link != 0 && linked < m_header->items_held; ++linked) {
      if (link > m_entries.size() || at(link).bytes_plus_one == 0 || at(link).newer != newer) return false;
      newer = link;
      link = at(link).older;
    }
    return link == 0 && linked == m_header->items_held && newer == m_header->least_recent;
  }

  void relink() {
    m_header->most_recent = 0;
    m_header->least_recent = 0;
    for (std::uint64_t key = 0; key < m_entries.size(); ++key) {
      if (m_entries[key].bytes_plus_one != 0) link_first(link_of(key));
    }
  }

  CachePolicyHeader* m_header;
  std::span<LruEntry> m_entries;
};

}  // namespace

std::unique_ptr<CachePolicy> make_lru_policy(CachePolicyHeader& header, std::span<LruEntry> entries) {
  return std::make_unique<LruPolicy>(header, entries);
}

}  // namespace dsanalyze
