#include "dsanalyze/share/rank_team.hpp"

#include <algorithm>
#include <utility>

namespace dsanalyze {

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

 private:
  Ranks& m_ranks;
  std::uint64_t m_number = 0;
};

RankTeam::RankTeam(std::unique_ptr<Ranks> ranks) : m_ranks(std::move(ranks)), m_agreeing(std::make_unique<Agreeing>(*m_ranks)) {}
RankTeam::~RankTeam() = default;

std::uint32_t RankTeam::rank() const { return static_cast<std::uint32_t>(m_agreeing->rank()); }
std::uint32_t RankTeam::world() const { return static_cast<std::uint32_t>(m_agreeing->world()); }
ElasticCollective& RankTeam::collective() { return *m_agreeing; }

}  // namespace dsanalyze
