#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

class MinioPolicy final : public PolicyOverState<MinioPolicy, MinioEntry> {
 public:
  MinioPolicy(CachePolicyHeader& header, std::span<MinioEntry> entries) : PolicyOverState(header, entries) {}

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& /*evicted*/) {
    MinioEntry& entry = m_entries[item.key];
    if (entry.bytes_plus_one != 0) return CacheDecision::hit;
    if (admitted_priority(item.priority) < m_header->least_priority || !fits(item.bytes)) return CacheDecision::bypass;
    count_in(entry, item.bytes);
    return CacheDecision::admit;
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one != 0) count_out(m_entries[key]);
  }

  void clear() override { empty(); }
};

}  // namespace

std::unique_ptr<CachePolicy> make_minio_policy(CachePolicyHeader& header, std::span<MinioEntry> entries) {
  return std::make_unique<MinioPolicy>(header, entries);
}

}  // namespace dsanalyze
