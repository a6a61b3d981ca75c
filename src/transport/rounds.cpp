#include "rounds.hpp"

#include <algorithm>
#include <cerrno>

namespace dsanalyze::transport {
namespace {

constexpr unsigned round_bits = 32;

Status to_its_end() { return {}; }

}  // namespace

Rounds::Rounds(Job& job, Say say)
    : m_members(&job.members),
      m_job(&job),
      m_say(std::move(say)),
      m_exchange(job.members, FrameKind::gather, m_say),
      m_taking_part(job.members.world(), true),
      m_views(job.members.world()) {}

bool Rounds::hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes) {
  if (head.kind == FrameKind::gather) {
    m_exchange.hear(rank, head.number, std::move(bytes));
  } else {
    auto view = parse_view(bytes, m_members->world());
    if (!view) return false;
    const std::scoped_lock lock(m_mutex);
    m_views[rank][head.kind] = {head.number, std::move(*view)};
  }
  m_members->tell();
  return true;
}

void Rounds::tell_all(FrameKind kind, std::uint64_t number, const RankView& view) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(write_view(view));
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (rank != m_members->own() && m_members->alive(rank)) m_say(rank, kind, number, bytes);
  }
}

Status Rounds::gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) {
  return m_exchange.gather(m_next++, m_taking_part, mine, all, to_its_end, deadline);
}

Status Rounds::sum(std::span<double> values, Deadline deadline) { return m_exchange.sum(m_next++, m_taking_part, values, to_its_end, deadline); }

std::optional<RankView> Rounds::outcome_of_another(std::uint64_t epoch, const RankMask& mask) {
  const std::scoped_lock lock(m_mutex);
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    const auto found = m_views[rank].find(FrameKind::decided);
    if (mask[rank] && found != m_views[rank].end() && found->second.first == epoch) return found->second.second;
  }
  return std::nullopt;
}

bool Rounds::shrink(std::uint64_t epoch, RankView& view) {
  const std::scoped_lock lock(m_mutex);
  const std::uint32_t world = m_members->world();
  const auto said_by = [&](std::uint32_t rank) -> const RankView* {
    const auto found = m_views[rank].find(FrameKind::mask);
    return found != m_views[rank].end() && found->second.first == epoch ? &found->second.second : nullptr;
  };
  RankMask& mask = view.alive;
  for (RankMask before; before != mask;) {
    before = mask;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      const RankView* const said = mask[rank] ? said_by(rank) : nullptr;
      for (std::uint32_t other = 0; said != nullptr && other < world; ++other) mask[other] = mask[other] && said->alive[other];
    }
  }
  // What a rank said before it died still counts: who is told that it is out does not go on alone because those who said so have hung up.
  for (std::uint32_t rank = 0; rank < world; ++rank) mask[rank] = mask[rank] && m_members->alive(rank);
  const RankMask silent = m_members->silent();
  view.silent = silent;
  bool is_same = true;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const RankView* const said = said_by(rank);
    for (std::uint32_t other = 0; said != nullptr && !silent[rank] && other < world; ++other) {
      view.silent[other] = view.silent[other] || (said->silent[other] && !mask[other]);
    }
    if (mask[rank] && rank != m_members->own() && (said == nullptr || said->alive != mask)) is_same = false;
  }
  return is_same;
}

Agreement Rounds::settle(std::uint64_t epoch, const RankView& view) {
  Agreement without_this{{StatusCode::io, ECONNABORTED}, {}};
  if (!view.alive[m_members->own()]) {
    m_job->bury(m_members->own(), Death::excluded);
    return without_this;
  }
  tell_all(FrameKind::decided, epoch, view);
  if (!may_go_on(m_taking_part, view.silent)) {
    m_job->bury(m_members->own(), Death::alone);
    return without_this;
  }
  Agreement agreement;
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (view.alive[rank]) agreement.ranks.push_back(rank);
    if (!view.alive[rank]) m_job->bury(rank, Death::excluded);
  }
  m_taking_part = view.alive;
  m_members->agreed_on(m_taking_part);
  m_next = ((epoch + 1) << round_bits) + 1;
  return agreement;
}

Agreement Rounds::agree(std::uint64_t epoch, Deadline deadline) {
  if (!m_view || m_view->first != epoch) m_view = {epoch, {m_taking_part, {}}};
  RankView& view = m_view->second;
  while (true) {
    const std::uint32_t seen = m_members->news();
    if (!m_members->alive(m_members->own())) return {{StatusCode::io, ECONNABORTED}, {}};
    if (const auto outcome = outcome_of_another(epoch, view.alive)) return settle(epoch, *outcome);
    const bool is_same = shrink(epoch, view);
    if (!view.alive[m_members->own()]) return settle(epoch, view);
    if (!m_told || m_told->first != epoch || m_told->second != view.alive) {
      tell_all(FrameKind::mask, epoch, view);
      m_told = {epoch, view.alive};
    }
    if (is_same) return settle(epoch, view);
    if (!m_members->wait(seen, deadline)) return {{StatusCode::timeout, 0}, {}};
  }
}

}  // namespace dsanalyze::transport
