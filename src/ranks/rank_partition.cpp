#include "rank_partition.hpp"

#include <utility>

namespace dsanalyze {
namespace {

/// Samples that a rank takes of the global mini-batch where each rank takes as many as it trains at a time.
std::uint32_t rank_batch(const ProfileSettings& settings) {
  return static_cast<std::uint32_t>(settings.batch_size * (settings.step == StepMode::lockstep ? settings.accelerators : 1));
}

}  // namespace

void share_storage(ProfileSettings& settings) {
  if (settings.storage_scope == StorageScope::shared) settings.storage_bytes_per_s /= settings.world;
}

RankPartition::RankPartition(Parts parts) : m_ranks(parts.team.ranks()), m_asks_others(parts.inputs.settings.partition != PartitionMode::none) {
  const ProfileSettings& settings = parts.inputs.settings;
  Pipeline::Spec spec = std::move(parts.spec);
  if (m_asks_others) spec.least_priority = partition_priority;
  m_server = Pipeline::make_server(parts.inputs, spec, 1, parts.timing);
  const Clock* const clock = parts.timing.clock;
  auto enough = [asked = std::move(parts.enough), clock, begun = clock->now()] { return asked(clock->now() - begun); };
  m_share.emplace(PartitionedShare::Parts{parts.inputs.index, &m_server->cache(), &m_server->held(), &parts.team.collective(), parts.timing},
                  PartitionedShare::Options{.mode = settings.partition,
                                            .balance = settings.balance_from,
                                            .rank_batch = rank_batch(settings),
                                            .seed = settings.seed,
                                            .enough = std::move(enough),
                                            .patience_seconds = parts.patience_seconds});
  if (settings.network == Seam::emulated)
    m_emulated = make_emulated_network(m_ranks.peers(), settings.network_bytes_per_s / settings.scale, parts.timing);
  spec.server = m_server;
  spec.share = &*m_share;
  if (m_asks_others) {
    spec.peers = m_emulated ? m_emulated.get() : &m_ranks.peers();
    spec.rules = &*m_share;
  }
  m_pipeline.emplace(parts.inputs, spec, parts.timing);
  if (m_asks_others) m_share->read_with(m_pipeline->partitioned_engine());
  m_ranks.serve(&m_server->held());
}

RankPartition::~RankPartition() {
  // Returns when nothing of the cache is in use.
  m_ranks.serve(nullptr);
}

}  // namespace dsanalyze
