#include <algorithm>

#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

class LruPolicy final : public PolicyOverState<LruPolicy, LruEntry> {
 public:
  LruPolicy(CachePolicyHeader& header, std::span<LruEntry> entries) : PolicyOverState(header, entries), m_list(header.list, entries) {
    if (m_list.whole(header.items_held, [](const LruEntry& entry) { return entry.bytes_plus_one != 0; })) return;
    m_list.empty_out();
    for (std::uint64_t key = 0; key < entries.size(); ++key) {
      if (entries[key].bytes_plus_one != 0) m_list.add_newest(key);
    }
  }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& evicted) {
    if (m_entries[item.key].bytes_plus_one != 0) {
      if (!m_list.is_newest(item.key)) {
        m_list.take_out(item.key);
        m_list.add_newest(item.key);
      }
      return CacheDecision::hit;
    }
    if (item.bytes > m_header->capacity) return CacheDecision::bypass;
    while (!fits(item.bytes)) {
      evicted.push_back(m_list.oldest());
      drop(m_list.oldest());
    }
    count_in(m_entries[item.key], item.bytes);
    m_list.add_newest(item.key);
    return CacheDecision::admit;
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one != 0) drop(key);
  }

  void clear() override {
    empty();
    m_list.empty_out();
  }

 private:
  void drop(std::uint64_t key) {
    m_list.take_out(key);
    count_out(m_entries[key]);
  }

  KeyList<LruEntry> m_list;
};

}  // namespace

std::unique_ptr<CachePolicy> make_lru_policy(CachePolicyHeader& header, std::span<LruEntry> entries) {
  return std::make_unique<LruPolicy>(header, entries);
}

}  // namespace dsanalyze
