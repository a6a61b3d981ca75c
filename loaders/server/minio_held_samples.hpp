#pragma once

#include "core/partition/peers.hpp"
#include "loaders/cache/slab.hpp"
#include "minio_ledger.hpp"

namespace dsanalyze {

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
