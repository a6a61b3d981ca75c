#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/cache_policy/cache_policy.hpp"
#include "core/order.hpp"
#include "core/storage_cost.hpp"

namespace dsanalyze {

/// Which part of an epoch's reads a cache leaves to storage, steady state. Threads: one at a time (answers are remembered).
class MissModel {
 public:
  struct Facts {
    CacheKind kind = CacheKind::minio;
    Admission admission = Admission::first;
    OrderKind order = OrderKind::random;
    Bytes sample_bytes = 100'000;        ///< mean; the page cache of Linux evicts clusters of pages
    std::vector<double> size_quantiles;  ///< bytes of a sample; with cost-aware admission
    StorageCost cost;                    ///< with cost-aware admission
  };
  MissModel() : MissModel(Facts{}) {}
  explicit MissModel(Facts facts);

  /// The share of storage's time that remains when the cache has room for `cached` of the dataset's bytes, read by `jobs` through it, staggered
  /// evenly over an epoch. MinIO: 1 - cached; cost-aware: by the Lorenz curve of the sizes (core/storage_cost.hpp); LRU and random replacement of one
  /// job in random order: closed forms (core/page_cache_forms.hpp); all else by replaying a small dataset through the policy (cache simulator).
  [[nodiscard]] double storage_share(double cached, std::uint32_t jobs = 1) const;
  /// The share that one of several servers misses, whose cache has room for `cached` of the dataset and sees a random 1/servers of it, another one
  /// each epoch: by replaying, for caches without a closed form of it (core/page_cache_forms.hpp has the others').
  [[nodiscard]] double replayed_share_of_server(double cached, std::uint32_t servers) const;
  [[nodiscard]] const Facts& facts() const { return m_facts; }
  /// As many hits as it holds items: what Eq 4 is about [DS-Analyzer, App. C.2].
  [[nodiscard]] bool is_minio() const { return m_facts.kind == CacheKind::minio && m_facts.admission == Admission::first; }

 private:
  [[nodiscard]] double cost_aware_share(double cached) const;
  [[nodiscard]] double replayed_share(double cached, std::uint32_t jobs, std::uint32_t servers) const;

  Facts m_facts;
  std::vector<Bytes> m_sizes;  ///< of the samples that stand for the dataset's; with cost-aware admission only
  mutable std::map<std::tuple<double, std::uint32_t, std::uint32_t>, double> m_replayed;
};

}  // namespace dsanalyze
