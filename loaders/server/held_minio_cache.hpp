#pragma once

#include <array>
#include <span>

#include "core/partition/peers.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/cache/slab.hpp"
#include "minio_ledger.hpp"
#include "protocol.hpp"

namespace dsanalyze {

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
