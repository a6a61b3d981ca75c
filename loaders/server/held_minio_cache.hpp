#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/partition/peers.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/cache/directory.hpp"
#include "loaders/cache/slab.hpp"
#include "protocol.hpp"
#include "server_scope.hpp"

namespace dsanalyze {

/// The decisions and the directory of a MinIO cache. Threads: any. No allocation after construction.
class MinioLedger {
 public:
  explicit MinioLedger(const CacheOptions& options)
      : m_directory(MemorySegment::create("cache directory", CacheDirectory::bytes_for(options.samples))),
        m_policy_state(cache_policy_state_bytes(CacheKind::minio, options.samples) + 64) {
    m_directory.forbid_future_writers();
    void* state = m_policy_state.data();
    std::size_t room = m_policy_state.size();
    std::align(64, room - 64, state, room);
    m_policy = make_cache_policy(CacheKind::minio, options.capacity, options.samples, {static_cast<std::byte*>(state), room}, options.least_priority);
    auto& header = m_directory.header();
    header.capacity = options.capacity;
    header.samples = options.samples;
    header.payload_bytes = std::min(options.capacity, options.dataset_bytes);
    header.free_bytes.store(options.capacity);
    header.least_priority = options.least_priority;
  }

  /// Decides accesses in order. An item that is admitted but not published yet is a bypass, as is one that cannot be: too large, or no sample.
  void decide(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions) {
    const std::scoped_lock lock(m_mutex);
    m_decided.fetch_add(accesses.size(), std::memory_order_relaxed);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const auto& [key, bytes, job, priority] = accesses[i];
      decisions[i] = CacheDecision::bypass;
      if (key >= m_directory.header().samples || bytes > server_protocol::most_item_bytes) continue;
      m_policy->access(accesses.subspan(i, 1), decisions.subspan(i, 1), m_evicted);
      if (decisions[i] == CacheDecision::admit) m_directory.promise(key, static_cast<std::uint32_t>(bytes));
      if (decisions[i] == CacheDecision::hit && !m_directory.find(key)) decisions[i] = CacheDecision::bypass;
    }
    note_free_bytes();
  }
  /// An admitted item does not come.
  void forget(std::uint64_t key) {
    const std::scoped_lock lock(m_mutex);
    if (key >= m_directory.header().samples || m_directory.find(key)) return;
    m_policy->forget(key);
    m_directory.promise(key, 0);
    note_free_bytes();
  }
  /// False when it is more than was promised, or there already.
  [[nodiscard]] bool publish(std::uint64_t key, const CacheDirectory::Place& place) {
    const std::scoped_lock lock(m_mutex);
    if (key >= m_directory.header().samples || m_directory.find(key) || place.length > m_directory.promised(key)) return false;
    m_directory.publish(key, place);
    return true;
  }
  [[nodiscard]] const CacheDirectory& directory() const { return m_directory; }
  /// Accesses decided so far: what was found in the directory without asking here is not among them.
  [[nodiscard]] std::uint64_t decided() const { return m_decided.load(std::memory_order_relaxed); }

 private:
  void note_free_bytes() { m_directory.header().free_bytes.store(m_policy->capacity() - m_policy->bytes_held(), std::memory_order_relaxed); }

  std::mutex m_mutex;
  std::atomic<std::uint64_t> m_decided{0};
  CacheDirectory m_directory;
  std::vector<std::byte> m_policy_state;
  std::unique_ptr<CachePolicy> m_policy;
  std::vector<std::uint64_t> m_evicted;
};

/// The holder's own view of its MinIO cache: it fills slab 0. What the directory has, and what cannot be admitted, is answered without the ledger and
/// its lock.
class HeldMinioCache final : public RawCache {
 public:
  /// Both outlive it; the table has slab 0.
  HeldMinioCache(MinioLedger& ledger, const SlabTable& slabs)
      : m_ledger(ledger), m_slabs(slabs), m_own(*slabs.find(0)), m_samples(ledger.directory().header().samples) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    std::array<CacheAccess, server_protocol::group> asked{};
    std::array<std::size_t, server_protocol::group> places{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const CacheAccess& access = accesses[i];
      lookups[i] = {CacheDecision::bypass, access.key, nullptr, 0, 0};
      if (access.key >= m_samples || find(access.key, lookups[i]) || !m_ledger.directory().may_admit(access)) continue;
      asked[count] = access;
      places[count++] = i;
      if (count < asked.size()) continue;
      decide(asked, places, lookups);
      count = 0;
    }
    if (count > 0) decide(std::span(asked).first(count), places, lookups);
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> /*scratch*/) const override { return {hit.contiguous, hit.length}; }
  Status store(std::uint64_t key, std::span<const std::byte> bytes) override {
    const Status status = place(key, bytes);
    if (!status.ok()) abandon(key);
    return status;
  }
  void abandon(std::uint64_t key) override { m_ledger.forget(key); }
  void release(std::span<const CacheLookup> /*hits*/) override {}
  [[nodiscard]] CacheTotals totals() const override {
    const auto& header = m_ledger.directory().header();
    return {header.items.load(), header.bytes.load(), header.capacity};
  }

 private:
  /// A hit, when the directory has the key.
  bool find(std::uint64_t key, CacheLookup& lookup) const {
    const auto there = m_ledger.directory().find(key);
    if (!there) return false;
    lookup = {CacheDecision::hit, key, m_slabs.address(there->slab, there->offset, there->length), 0, there->length};
    return true;
  }
  void decide(std::span<const CacheAccess> asked, std::span<const std::size_t> places, std::span<CacheLookup> lookups) {
    std::array<CacheDecision, server_protocol::group> decisions{};
    m_ledger.decide(asked, std::span(decisions).first(asked.size()));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      CacheLookup& lookup = lookups[places[i]];
      if (decisions[i] == CacheDecision::admit) lookup.decision = CacheDecision::admit;
      if (decisions[i] == CacheDecision::hit) find(asked[i].key, lookup);  // it came while this was asked
    }
  }
  Status place(std::uint64_t key, std::span<const std::byte> bytes) {
    const CacheDirectory& directory = m_ledger.directory();
    if (key >= m_samples || bytes.size() > directory.promised(key)) return {StatusCode::corrupt, 0};
    const auto offset = m_own.append(bytes);
    if (!offset) return {StatusCode::busy, 0};
    if (!m_ledger.publish(key, {0, *offset, static_cast<std::uint32_t>(bytes.size())})) return {StatusCode::corrupt, 0};
    return {};
  }

  MinioLedger& m_ledger;
  const SlabTable& m_slabs;
  Slab& m_own;
  const std::uint64_t m_samples;
};

/// What a MinIO cache holds: in place, since nothing in it ever goes. No lock.
class MinioHeldSamples final : public HeldSamples {
 public:
  /// `ledger`: nullptr for a cache that is not MinIO, of which nothing is held. Both outlive it.
  MinioHeldSamples(const MinioLedger* ledger, const SlabTable& slabs) : m_ledger(ledger), m_slabs(slabs) {}

  [[nodiscard]] std::span<const std::byte> find(SampleId sample) const override {
    if (m_ledger == nullptr || sample >= m_ledger->directory().header().samples) return {};
    const auto place = m_ledger->directory().find(sample);
    if (!place) return {};
    const std::byte* const bytes = m_slabs.address(place->slab, place->offset, place->length);
    return bytes == nullptr ? std::span<const std::byte>() : std::span(bytes, place->length);
  }

 private:
  const MinioLedger* m_ledger;
  const SlabTable& m_slabs;
};

}  // namespace dsanalyze
