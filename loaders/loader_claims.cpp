#include <algorithm>
#include <array>
#include <optional>

#include "core/order.hpp"
#include "loader_threads.hpp"

namespace dsanalyze {
namespace {

/// The orders of the epochs that a producer may be at: the newest, and the one before it while somebody's work of it is taken over.
class ClaimedOrders final : public ClaimedSamples {
 public:
  ClaimedOrders(const SamplerState& start, std::span<const IndexRecord> records, std::uint32_t batch_size)
      : m_start(start), m_records(records), m_batch_size(batch_size) {}

  Work of(const StagingClaim& claim) override {
    const std::span<const SampleId> all = order_of(claim.epoch).training;
    const std::uint64_t begin = std::min<std::uint64_t>(claim.index * m_batch_size, all.size());
    return {all.subspan(begin, std::min<std::uint64_t>(m_batch_size, all.size() - begin)), claim.epoch};
  }

 private:
  struct Known {
    std::uint64_t epoch = UINT64_MAX;
    EpochOrder order;
  };
  const EpochOrder& order_of(std::uint64_t epoch) {
    Known& known = m_known[epoch % m_known.size()];
    if (known.epoch != epoch) {
      make_epoch_order(m_start.order, m_start.seed, epoch, m_records, static_cast<std::uint32_t>(m_start.samples), known.order);
      known.epoch = epoch;
    }
    return known.order;
  }

  SamplerState m_start;
  std::span<const IndexRecord> m_records;
  std::uint32_t m_batch_size;
  std::array<Known, 2> m_known;
};

}  // namespace

void LoaderFeeder::feed_claims() {
  ClaimedOrders orders(m_flow.options.start, m_flow.parts.index->records(), m_flow.options.batch_size);
  ClaimedSamples& claimed = m_flow.parts.claimed != nullptr ? *m_flow.parts.claimed : orders;
  std::optional<std::uint64_t> current;
  while (!m_flow.over()) {
    StagingClaim claim;
    const Status status = m_flow.parts.staging->claim(claim, m_flow.soon());
    if (status.code == StatusCode::timeout) continue;
    if (status.code == StatusCode::io) return m_flow.failures.fail("the group's coordinator is gone: no more batches are made");
    if (!status.ok()) break;
    if (current != claim.epoch) {
      if (current) {
        if (!wait_settled()) return;
        m_flow.epochs.settle(*current);
      }
      current = claim.epoch;
      m_flow.epochs.begin(claim.epoch);
    }
    feed_claim(claim, claimed.of(claim));
  }
  // A producer that is stopped has often made all of its share.
  if (current && (wait_settled() || m_flow.unsettled.load(std::memory_order_acquire) == 0)) m_flow.epochs.settle(*current);
}

void LoaderFeeder::feed_claim(const StagingClaim& claim, const ClaimedSamples::Work& work) {
  const std::span<const SampleId> ids = work.samples;
  const Nanoseconds begun = m_track != nullptr ? m_flow.timing.clock->now() : 0;
  const BatchAssembly::Draw draw{
      {claim.slot, claim.sequence}, claim.bytes.data(), claim.sequence, claim.sequence, 0, 1, claim.epoch, false, {}, work.generation};
  // The slot is this producer's until the batch is published, and no two claims have the same.
  m_flow.claims[claim.slot] = claim;
  m_flow.assembly.begin(claim.slot, draw, ids, *m_flow.parts.index);
  m_flow.failures.drew(ids.size());
  dispatch(ids, claim.epoch, claim.slot);
  if (m_track != nullptr) m_track->add({begun, m_flow.timing.clock->now(), claim.sequence, static_cast<std::uint32_t>(ids.size()), SpanKind::batch});
  ++m_sequence;
}

}  // namespace dsanalyze
