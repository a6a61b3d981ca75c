#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

class MinioPolicy final : public PolicyOverState<MinioPolicy, MinioEntry> {
 public:
  MinioPolicy(CachePolicyHeader& header, std::span<MinioEntry> entries, std::span<std::uint64_t> bitmap)
      : PolicyOverState(header, entries), m_bitmap(bitmap) {
    std::ranges::fill(m_bitmap, 0);
    for (std::uint64_t key = 0; key < entries.size(); ++key) {
      if (entries[key].bytes_plus_one != 0) mark(key);
    }
  }

  void expect(std::uint64_t key) const { __builtin_prefetch(&m_bitmap[key / 64]); }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& /*evicted*/) {
    const bool held = (m_bitmap[item.key / 64] >> (item.key % 64) & 1) != 0;
    // Room first: once the cache is full, which is as good as always, nothing is left to be guessed by a processor.
    const bool admitted = fits(item.bytes) && !held && admitted_priority(item.priority) >= m_header->least_priority;
    if (admitted) [[unlikely]] {
      count_in(m_entries[item.key], item.bytes);
      mark(item.key);
      return CacheDecision::admit;
    }
    return held ? CacheDecision::hit : CacheDecision::bypass;
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one == 0) return;
    count_out(m_entries[key]);
    m_bitmap[key / 64] &= ~bit_of(key);
  }

  void clear() override {
    empty();
    std::ranges::fill(m_bitmap, 0);
  }

 private:
  static constexpr std::uint64_t bit_of(std::uint64_t key) { return std::uint64_t{1} << (key % 64); }
  void mark(std::uint64_t key) { m_bitmap[key / 64] |= bit_of(key); }

  std::span<std::uint64_t> m_bitmap;
};

}  // namespace

std::unique_ptr<CachePolicy> make_minio_policy(CachePolicyHeader& header, std::span<MinioEntry> entries, std::span<std::uint64_t> bitmap) {
  return std::make_unique<MinioPolicy>(header, entries, bitmap);
}

}  // namespace dsanalyze
