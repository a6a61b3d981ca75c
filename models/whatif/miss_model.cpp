#include "miss_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/cache_policy/page_cache_forms.hpp"
#include "models/simulate/cache_simulator.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t replayed_samples = 10'000;  // misses are shares: more samples change the third digit
constexpr std::uint32_t replayed_epochs = 8;
constexpr std::uint32_t first_steady_epoch = 4;
constexpr std::uint32_t sizes_a_quantile = 10;
constexpr std::uint32_t most_replayed_servers = 64;  // of more each epoch's part is a draw from nearly all: misses are alike

ReplayPolicy replay_policy(CacheKind kind) {
  switch (kind) {
    case CacheKind::none:
      return ReplayPolicy::none;
    case CacheKind::minio:
      return ReplayPolicy::minio;
    case CacheKind::lru:
      return ReplayPolicy::lru;
    case CacheKind::page_model_random:
      return ReplayPolicy::page_model_random;
    case CacheKind::page:  // the kernel's own, as the model of it
    case CacheKind::page_model_linux:
      break;
  }
  return ReplayPolicy::page_model_linux;
}

}  // namespace

MissModel::MissModel(Facts facts) : m_facts(std::move(facts)) {
  if (m_facts.kind != CacheKind::minio || m_facts.admission != Admission::cost_aware) return;
  const std::vector<double>& quantiles = m_facts.size_quantiles;
  for (std::size_t i = 0; i + 1 < quantiles.size(); ++i)
    for (std::uint32_t j = 0; j < sizes_a_quantile; ++j)
      m_sizes.push_back(static_cast<Bytes>(std::llround(std::lerp(quantiles[i], quantiles[i + 1], (j + 0.5) / sizes_a_quantile))));
}

double MissModel::storage_share(double cached, std::uint32_t jobs) const {
  cached = std::clamp(cached, 0.0, 1.0);
  if (cached >= 1) return 0;
  const bool alone = jobs == 1;
  switch (m_facts.kind) {
    case CacheKind::none:
      return 1;
    case CacheKind::minio: {
      // Where no size or no cost is known, all samples are worth the same.
      const bool ranked = m_facts.cost.seconds(1) > 0 && std::ranges::any_of(m_sizes, [](Bytes bytes) { return bytes > 0; });
      return ranked ? cost_aware_share(cached) : 1 - cached;
    }
    case CacheKind::lru:
      if (alone && m_facts.order == OrderKind::random) return lru_misses(cached);
      break;
    case CacheKind::page_model_random:
      if (alone && m_facts.order == OrderKind::random) return random_replacement_misses(cached);
      if (alone && m_facts.order == OrderKind::sequential) return random_replacement_misses_in_order(cached);
      break;
    case CacheKind::page:
    case CacheKind::page_model_linux:
      break;
  }
  return cached <= 0 && alone ? 1 : replayed_share(cached, jobs, 1);
}

double MissModel::cost_aware_share(double cached) const {
  std::vector<IndexRecord> records(m_sizes.size());
  Bytes sum = 0;
  for (std::size_t i = 0; i < m_sizes.size(); ++i) {
    records[i].length = m_sizes[i];
    sum += m_sizes[i];
  }
  return cost_aware_remaining_share(records, m_facts.cost, static_cast<Bytes>(std::llround(cached * static_cast<double>(sum))));
}

double MissModel::replayed_share_of_server(double cached, std::uint32_t servers) const {
  cached = std::clamp(cached, 0.0, 1.0);
  if (cached <= 0 || cached >= 1) return 1 - cached;
  return replayed_share(cached, 1, std::min(servers, most_replayed_servers));
}

double MissModel::replayed_share(double cached, std::uint32_t jobs, std::uint32_t servers) const {
  const auto key = std::make_tuple(std::round(cached * 1000) / 1000, jobs, servers);
  if (const auto known = m_replayed.find(key); known != m_replayed.end()) return known->second;
  JobOrders orders;
  // Shards of a dataset that is not here: their samples lie together, so for a cache they are read as good as one by one in random order. So is the
  // part of a server.
  orders.order.kind = m_facts.order == OrderKind::sequential && servers == 1 ? OrderKind::sequential : OrderKind::random;
  orders.samples = replayed_samples;
  orders.sizes.each = std::max<Bytes>(m_facts.sample_bytes, 1);
  orders.epochs = replayed_epochs * servers;
  orders.jobs = jobs;
  orders.stagger = 1.0 / jobs;
  orders.servers = servers;
  const auto source = make_order_source(orders);
  const auto capacity = static_cast<Bytes>(std::llround(std::get<0>(key) * replayed_samples * static_cast<double>(orders.sizes.each)));
  const std::array cases{CacheCase{replay_policy(m_facts.kind), capacity, 0}};
  const std::vector<CaseCounts> counted = replay(*source, cases);
  AccessCounts steady;
  for (const EpochCounts& epoch : counted.front().epochs)
    if (epoch.epoch >= first_steady_epoch * servers) steady.add(epoch.counts);
  return m_replayed[key] = steady.miss_share();
}

}  // namespace dsanalyze
