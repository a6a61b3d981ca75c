#include "epoch_draws.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace dsanalyze::simulation {
namespace {

constexpr std::uint64_t size_key = 0x73697a65;
/// The epoch that a warm cache has seen: none that is simulated has its number.
constexpr std::uint64_t epoch_before = UINT64_MAX;

Bytes whole_bytes(double bytes) { return static_cast<Bytes>(std::llround(std::min(bytes, 1e15))); }

}  // namespace

EpochDraws::EpochDraws(const EpochSetup& setup) : m_setup(setup), m_constant_bytes(whole_bytes(setup.sample_bytes.mean())) {
  if (setup.records.empty() && !setup.sample_bytes.is_constant()) {
    RandomStream random(mix(setup.seed, size_key));
    m_sizes.resize(setup.samples);
    for (Bytes& bytes : m_sizes) bytes = whole_bytes(setup.sample_bytes.draw(random.uniform()));
  }
  if (setup.records.empty() && setup.order.kind == OrderKind::shards) {
    m_made_up_files.resize(setup.samples);
    const std::uint32_t in_file = setup.samples_per_shard > 0 ? setup.samples_per_shard : setup.samples;
    for (std::uint32_t i = 0; i < setup.samples; ++i) m_made_up_files[i].file = i / in_file;
  }
}

Bytes EpochDraws::total_bytes() const {
  Bytes total = 0;
  for (std::uint32_t i = 0; i < m_setup.samples; ++i) total += bytes(i);
  return total;
}

void EpochDraws::begin_epoch(std::uint64_t epoch) {
  const std::span<const IndexRecord> records = m_setup.records.empty() ? std::span<const IndexRecord>(m_made_up_files) : m_setup.records;
  make_epoch_order(m_setup.order, m_setup.seed, epoch, records, m_setup.samples, m_order);
  m_end = 0;
  m_asked = 0;
}

std::span<const SampleId> EpochDraws::next(std::size_t count) {
  const std::size_t begin = m_end;
  m_end = std::min(begin + count, m_order.training.size());
  return std::span<const SampleId>(m_order.training).subspan(begin, m_end - begin);
}

std::span<const SampleId> EpochDraws::ahead() {
  const std::size_t begin = m_asked;
  m_asked = std::min(m_end + m_setup.order.shuffle_buffer, m_order.storage.size());
  return std::span<const SampleId>(m_order.storage).subspan(begin, m_asked - begin);
}

CacheStage::CacheStage(const EpochSetup& setup, EpochDraws& draws, Held held)
    : m_cost(setup.cache.storage_cost), m_accesses(setup.batch_size), m_decisions(setup.batch_size, CacheDecision::hit) {
  if (held == Held::everything) return;
  if (!holds_samples(setup.cache.kind)) {
    std::ranges::fill(m_decisions, CacheDecision::bypass);
    return;
  }
  m_state.resize(cache_policy_state_bytes(setup.cache.kind, setup.samples) / sizeof(Line) + 1);
  m_evicted.reserve(setup.batch_size);
  const auto capacity = static_cast<Bytes>(std::llround(setup.cache.fraction * static_cast<double>(draws.total_bytes())));
  m_policy = make_cache_policy(setup.cache.kind, capacity, setup.samples, std::as_writable_bytes(std::span(m_state)), setup.cache.least_priority);
  if (setup.cache.start == SimulatedCache::Start::empty) return;
  draws.begin_epoch(epoch_before);
  for (auto asked = draws.asked(); !asked.empty();) {
    const std::size_t count = std::min<std::size_t>(asked.size(), setup.batch_size);
    access(asked.first(count), draws);
    asked = asked.subspan(count);
  }
}

std::span<const CacheDecision> CacheStage::access(std::span<const SampleId> samples, const EpochDraws& draws) {
  const auto decisions = std::span(m_decisions).first(samples.size());
  if (!m_policy) return decisions;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Bytes bytes = draws.bytes(samples[i]);
    m_accesses[i] = {samples[i], bytes, 0, m_cost.access_priority(bytes)};
  }
  m_evicted.clear();
  m_policy->access(std::span(m_accesses).first(samples.size()), decisions, m_evicted);
  return decisions;
}

}  // namespace dsanalyze::simulation
