#include "cache_simulator.hpp"

#include <algorithm>
#include <optional>

#include "base/system/shared_memory.hpp"
#include "belady.hpp"

namespace dsanalyze {
namespace {

float least_priority_of(const CacheCase& cache) { return cache.policy == ReplayPolicy::minio_cost_aware ? cache.least_priority : 0; }

Bytes state_bytes_of(const CacheCase& cache, std::uint64_t keys, std::uint64_t accesses) {
  return cache.policy == ReplayPolicy::belady ? accesses / 8 : cache_policy_state_bytes(cache_kind_of(cache.policy), keys);
}

/// One case while a trace is put before it.
class RunningCase {
 public:
  RunningCase(const CacheCase& cache, const AccessSource& source, std::shared_ptr<const KnownFuture> future) {
    m_counts.cache = cache;
    m_counts.jobs.resize(source.jobs());
    if (cache.policy == ReplayPolicy::belady) {
      m_belady.emplace(std::move(future), cache.capacity);
      return;
    }
    const CacheKind kind = cache_kind_of(cache.policy);
    m_memory = ZeroedMemory(cache_policy_state_bytes(kind, source.key_count()));
    m_policy = make_cache_policy(kind, cache.capacity, source.key_count(), m_memory.bytes(), least_priority_of(cache));
  }

  /// `totals` are what the block asks for, job by job.
  void put(const AccessBlock& block, std::span<const AccessCounts> totals) {
    m_decisions.resize(block.accesses.size());
    if (m_belady) {
      m_belady->access(block.accesses, m_decisions);
    } else {
      m_evicted.clear();
      m_policy->access(block.accesses, m_decisions, m_evicted);
    }
    m_block.assign(totals.begin(), totals.end());
    if (totals.size() == 1) {
      count_alone(block.accesses);
    } else {
      count_by_job(block.accesses);
    }
    for (std::size_t job = 0; job < totals.size(); ++job) {
      if (totals[job].accesses > 0) m_counts.of(static_cast<std::uint32_t>(job), block.epoch_of_job[job]).add(m_block[job]);
    }
  }

  CaseCounts finish() {
    m_counts.items_held = m_belady ? m_belady->items_held() : m_policy->items_held();
    m_counts.bytes_held = m_belady ? m_belady->bytes_held() : m_policy->bytes_held();
    m_counts.add_up();
    return std::move(m_counts);
  }

 private:
  // Without a branch: no predictor can foretell whether an access hits, the processor's included.
  void count_alone(std::span<const CacheAccess> accesses) {
    std::uint64_t hits = 0;
    Bytes missed = 0;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const std::uint64_t hit = m_decisions[i] == CacheDecision::hit ? 1 : 0;
      hits += hit;
      missed += accesses[i].bytes & (hit - 1);
    }
    m_block[0].hits = hits;
    m_block[0].bytes_missed = missed;
  }
  void count_by_job(std::span<const CacheAccess> accesses) {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const std::uint64_t hit = m_decisions[i] == CacheDecision::hit ? 1 : 0;
      AccessCounts& counts = m_block[accesses[i].job];
      counts.hits += hit;
      counts.bytes_missed += accesses[i].bytes & (hit - 1);
    }
  }

  CaseCounts m_counts;
  ZeroedMemory m_memory;
  std::unique_ptr<CachePolicy> m_policy;
  std::optional<Belady> m_belady;
  std::vector<CacheDecision> m_decisions;
  std::vector<std::uint64_t> m_evicted;
  std::vector<AccessCounts> m_block;
};

void add_up(const AccessBlock& block, std::vector<AccessCounts>& totals) {
  std::ranges::fill(totals, AccessCounts{});
  for (const CacheAccess& access : block.accesses) {
    AccessCounts& counts = totals[access.job];
    ++counts.accesses;
    counts.bytes += access.bytes;
  }
}

/// How many of the cases, from the first on, fit the memory together; at least one.
std::size_t group_size(std::span<const CacheCase> cases, std::uint64_t keys, std::uint64_t accesses, Bytes limit) {
  Bytes taken = 0;
  std::size_t count = 0;
  for (; count < cases.size(); ++count) {
    const Bytes needed = state_bytes_of(cases[count], keys, accesses);
    if (count > 0 && needed > limit - std::min(limit, taken)) break;
    taken += needed;
  }
  return count;
}

}  // namespace

std::vector<CaseCounts> replay(AccessSource& source, std::span<const CacheCase> cases, const ReplayOptions& options) {
  std::shared_ptr<const KnownFuture> future;
  const auto needs_future = [](const CacheCase& cache) { return cache.policy == ReplayPolicy::belady; };
  if (std::ranges::any_of(cases, needs_future)) future = std::make_shared<KnownFuture>(source, options.most_oracle_accesses);

  std::vector<CaseCounts> results;
  std::vector<AccessCounts> totals(source.jobs());
  std::uint64_t decided = 0;
  while (!cases.empty()) {
    const std::size_t count = group_size(cases, source.key_count(), future ? future->size() : 0, options.state_bytes);
    std::vector<RunningCase> group;
    group.reserve(count);
    for (const CacheCase& cache : cases.first(count)) group.emplace_back(cache, source, future);
    source.rewind();
    AccessBlock block;
    while (source.next(block)) {
      add_up(block, totals);
      for (RunningCase& each : group) each.put(block, totals);
      decided += block.accesses.size() * count;
      if (options.progress) options.progress(decided);
    }
    for (RunningCase& each : group) results.push_back(each.finish());
    cases = cases.subspan(count);
  }
  return results;
}

}  // namespace dsanalyze
