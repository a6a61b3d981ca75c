#include "base/random.hpp"
#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t eviction_seed = 0x72616e646f6d;

/// Held keys stand in a dense array, so that any of them is as likely to go as any other, in O(1).
class PageModelRandomPolicy final : public PolicyOverState<PageModelRandomPolicy, RandomEntry> {
 public:
  PageModelRandomPolicy(CachePolicyHeader& header, std::span<RandomEntry> entries) : PolicyOverState(header, entries) {
    if (array_is_whole()) return;
    std::uint64_t place = 0;
    for (std::uint64_t key = 0; key < entries.size(); ++key) {
      if (entries[key].bytes_plus_one != 0) put(key, place++);
    }
  }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& evicted) {
    if (m_entries[item.key].bytes_plus_one != 0) return CacheDecision::hit;
    if (item.bytes > m_header->capacity) return CacheDecision::bypass;
    while (!fits(item.bytes)) {
      const std::uint64_t place = RandomStream(mix(eviction_seed, m_header->draws++)).below(m_header->items_held);
      evicted.push_back(m_entries[place].held_key);
      drop(m_entries[place].held_key);
    }
    put(item.key, m_header->items_held);
    count_in(m_entries[item.key], item.bytes);
    return CacheDecision::admit;
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one != 0) drop(key);
  }

  void clear() override { empty(); }

 private:
  void put(std::uint64_t key, std::uint64_t place) {
    m_entries[place].held_key = static_cast<std::uint32_t>(key);
    m_entries[key].place = static_cast<std::uint32_t>(place);
  }

  void drop(std::uint64_t key) {
    put(m_entries[m_header->items_held - 1].held_key, m_entries[key].place);  // the last of the array takes the place that becomes free
    count_out(m_entries[key]);
  }

  [[nodiscard]] bool array_is_whole() const {
    for (std::uint64_t place = 0; place < m_header->items_held; ++place) {
      const std::uint64_t key = m_entries[place].held_key;
      if (key >= m_entries.size() || m_entries[key].bytes_plus_one == 0 || m_entries[key].place != place) return false;
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<CachePolicy> make_page_model_random_policy(CachePolicyHeader& header, std::span<RandomEntry> entries) {
  return std::make_unique<PageModelRandomPolicy>(header, entries);
}

}  // namespace dsanalyze
