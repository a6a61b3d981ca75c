#include "rank_team.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "core/depths.hpp"

namespace dsanalyze {

namespace {

constexpr double stop_look_seconds = 0.2;  ///< how often a rank that waits for the others looks whether it should stop

std::uint32_t lowest_alive(const AliveRanks& alive) {
  std::uint32_t rank = 0;
  while (rank < alive.ranks() && !alive.alive(rank)) ++rank;
  return rank;
}

}  // namespace

/// Agreements are numbered by how many there were: ranks agree as often as one another.
class RankTeam::Agreeing final : public ElasticCollective {
 public:
  explicit Agreeing(Ranks& ranks) : m_ranks(ranks) {}
  [[nodiscard]] int rank() const override { return m_ranks.collective().rank(); }
  [[nodiscard]] int world() const override { return m_ranks.collective().world(); }
  Status barrier(Deadline deadline) override { return m_ranks.collective().barrier(deadline); }
  Status sum(std::span<double> values, Deadline deadline) override { return m_ranks.collective().sum(values, deadline); }
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) override {
    return m_ranks.collective().gather(mine, all, deadline);
  }
  Status agree(AliveRanks& alive, Deadline deadline) override {
    const Agreement agreement = m_ranks.agree_alive(m_number, deadline);
    if (!agreement.status.ok()) return agreement.status;
    ++m_number;
    for (std::uint32_t rank = 0; rank < alive.ranks(); ++rank) {
      if (!std::ranges::binary_search(agreement.ranks, rank)) alive.lose(rank);
    }
    return {};
  }
  [[nodiscard]] std::string given_up() const override { return m_ranks.given_up(); }
  void stop() override { m_ranks.stop_rounds(); }
  void restart() override {
    m_number = first_of_next_block(m_number);
    m_ranks.restart_rounds();
  }

 private:
  Ranks& m_ranks;
  std::uint64_t m_number = 0;
};

RankTeam::RankTeam(std::unique_ptr<Ranks> ranks) : m_ranks(std::move(ranks)), m_agreeing(std::make_unique<Agreeing>(*m_ranks)) {}
RankTeam::~RankTeam() = default;

std::uint32_t RankTeam::rank() const { return static_cast<std::uint32_t>(m_agreeing->rank()); }
std::uint32_t RankTeam::world() const { return static_cast<std::uint32_t>(m_agreeing->world()); }
ElasticCollective& RankTeam::collective() { return *m_agreeing; }

Status RankTeam::agree(AliveRanks& alive, const Patience& patience) {
  const Deadline last = patience.timing.clock->after(patience.seconds);
  Status status{StatusCode::timeout, 0};
  while (status.code == StatusCode::timeout && patience.timing.clock->now() < last.at) {
    if (patience.stop.stop_requested()) throw Interrupted();
    status = m_agreeing->agree(alive, {std::min(last.at, patience.timing.clock->after(stop_look_seconds).at)});
  }
  return status;
}

bool RankTeam::tells_result(AliveRanks& alive, const Patience& patience) {
  const auto require_agreed = [&](Status status) {
    if (status.ok()) return;
    const std::string given_up = m_agreeing->given_up();
    throw Error(given_up.empty() ? fmt::format("the ranks did not all come to the report of the result ({})", status_name(status.code))
                                 : fmt::format("rank {} of {} cannot go on: {}", rank(), world(), given_up));
  };
  require_agreed(agree(alive, patience));
  const std::uint32_t teller = lowest_alive(alive);
  const auto require_teller = [&] {
    if (alive.alive(teller)) return;
    throw Error(
        fmt::format("rank {} of {} was lost while it reported the result, and whether it did is not known: look for the result there, or run again",
                    teller, world()));
  };
  // Who comes here a second time knows who tells and will not tell it itself. So the teller begins when all that are left have come.
  require_agreed(agree(alive, patience));
  require_teller();
  if (teller == rank()) return true;
  const Status told = agree(alive, patience);
  if (told.code == StatusCode::timeout) return false;
  require_agreed(told);
  require_teller();
  return false;
}

void RankTeam::told_result(const Patience& patience) {
  AliveRanks alive(world());
  static_cast<void>(agree(alive, {patience.seconds, {}, patience.timing}).ok());  // whatever comes now, the result is told
}
namespace {

/// Samples that a rank takes of the global mini-batch where each rank takes as many as it trains at a time.
std::uint32_t rank_batch(const ProfileSettings& settings) {
  return static_cast<std::uint32_t>(settings.batch_size * (settings.step == StepMode::lockstep ? settings.accelerators : 1));
}

}  // namespace

std::string agreed_line(std::string_view text) {
  constexpr std::size_t most_characters = 160;
  std::string line = printable(text);
  if (line.size() <= most_characters) return line;
  return fmt::format("{}... ({:016x})", line.substr(0, most_characters - 24), XXH3_64bits(text.data(), text.size()));
}

void complete_facts(RankFacts& facts, const Roster& roster, std::span<const AgreedValue> agreed, bool has_key, const ProfileSettings& settings,
                    const DatasetIndex& index) {
  constexpr std::uint32_t most_places = 1024;
  constexpr Bytes most_asked_bytes = UINT32_MAX - 1;  // larger samples are read from storage
  // "127.0.0.1:40123", "[::1]:40123": what ranks say to one another does not leave this machine.
  const bool all_on_loopback =
      std::ranges::all_of(roster.addresses, [](const std::string& address) { return address.starts_with("127.") || address.starts_with("[::1]:"); });
  facts.key = roster.key;
  for (const AgreedValue& value : agreed) facts.terms += value.name + "=" + value.value + "\n";
  facts.frame_check = !has_key && all_on_loopback ? FrameCheck::checksum : FrameCheck::tag;
  facts.places = static_cast<std::uint32_t>(std::min<std::size_t>(fetch_places(settings), most_places));
  facts.largest_sample = std::min<Bytes>(largest_sample(index), most_asked_bytes);
}

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
                                            .patience_seconds = parts.patience_seconds,
                                            .needs_all = parts.needs_all});
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
