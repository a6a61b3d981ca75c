#include "rounds.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dsanalyze::transport {
namespace {

constexpr unsigned round_bits = 32;

}  // namespace

Rounds::Rounds(Job& job, Say say)
    : m_members(&job.members),
      m_job(&job),
      m_say(std::move(say)),
      m_exchange(job.members, FrameKind::gather, m_say, [this](std::uint32_t rank) { return went_on(rank); }),
      m_taking_part(job.members.world(), true),
      m_masks(job.members.world()) {}

bool Rounds::hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes) {
  if (head.kind == FrameKind::gather) {
    m_exchange.hear(rank, head.number, std::move(bytes));
  } else {
    auto said = parse_standing(bytes, m_members->world());
    if (!said || said->ended[m_members->own()]) return false;
    // Known before what it said counts: who leaves a rank out by that knows whether it has ended.
    for (std::uint32_t other = 0; other < m_members->world(); ++other) {
      if (said->ended[other]) m_job->bury(other, Death::ended);
    }
    const std::scoped_lock lock(m_mutex);
    m_masks[rank][head.kind] = {head.number, std::move(said->going_on)};
  }
  m_members->tell();
  return true;
}

void Rounds::tell_all(FrameKind kind, std::uint64_t number, const RankMask& mask) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(write_standing({mask, m_members->of_death(Death::ended)}));
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (rank != m_members->own() && m_members->alive(rank)) m_say(rank, kind, number, bytes);
  }
}

Exchange::Ending Rounds::ending() const {
  return [this] { return m_is_stopped ? Status{StatusCode::cancelled, 0} : Status{}; };
}

bool Rounds::is_given_up(std::uint64_t epoch) {
  const std::scoped_lock lock(m_mutex);
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (rank == m_members->own() || !m_members->alive(rank)) continue;
    if (std::ranges::any_of(m_masks[rank], [epoch](const auto& said) { return said.second.first >= first_of_next_block(epoch); })) return true;
  }
  return false;
}

bool Rounds::went_on(std::uint32_t rank) {
  const std::scoped_lock lock(m_mutex);
  return std::ranges::any_of(m_masks[rank], [this](const auto& said) { return !m_settled || said.second.first > *m_settled; });
}

Status Rounds::gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) {
  return m_exchange.gather(m_next++, m_taking_part, mine, all, ending(), deadline);
}

Status Rounds::sum(std::span<double> values, Deadline deadline) { return m_exchange.sum(m_next++, m_taking_part, values, ending(), deadline); }

std::optional<RankMask> Rounds::outcome_of_another(std::uint64_t epoch, const RankMask& mask) {
  const std::scoped_lock lock(m_mutex);
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    const auto found = m_masks[rank].find(FrameKind::decided);
    if (mask[rank] && found != m_masks[rank].end() && found->second.first == epoch) return found->second.second;
  }
  return std::nullopt;
}

bool Rounds::shrink(std::uint64_t epoch, RankMask& mask) {
  const std::scoped_lock lock(m_mutex);
  const std::uint32_t world = m_members->world();
  const auto said_by = [&](std::uint32_t rank) -> const RankMask* {
    const auto found = m_masks[rank].find(FrameKind::mask);
    return found != m_masks[rank].end() && found->second.first == epoch ? &found->second.second : nullptr;
  };
  for (RankMask before; before != mask;) {
    before = mask;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      const RankMask* const said = mask[rank] ? said_by(rank) : nullptr;
      for (std::uint32_t other = 0; said != nullptr && other < world; ++other) mask[other] = mask[other] && (*said)[other];
    }
  }
  // What a rank said before it died still counts: who is told that it is out does not go on alone because those who said so have hung up.
  for (std::uint32_t rank = 0; rank < world; ++rank) mask[rank] = mask[rank] && m_members->alive(rank);
  bool is_same = true;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    if (!mask[rank] || rank == m_members->own()) continue;
    const RankMask* const said = said_by(rank);
    is_same = is_same && said != nullptr && *said == mask;
  }
  return is_same;
}

bool Rounds::waits_for_ends(std::uint64_t epoch, const RankMask& mask) {
  RankMask ended = m_members->of_death(Death::ended);
  if (may_go_on(m_taking_part, ended, mask)) return false;
  const std::scoped_lock lock(m_mutex);
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    const Death death = m_members->death(rank);
    if (!m_taking_part[rank] || mask[rank]) continue;
    if (death != Death::none && death != Death::ended) return false;
    const auto outcome = m_masks[rank].find(FrameKind::decided);
    ended[rank] = death == Death::ended || outcome == m_masks[rank].end() || outcome->second.first < epoch;
  }
  return may_go_on(m_taking_part, ended, mask);
}

Agreement Rounds::settle(std::uint64_t epoch, const RankMask& mask) {
  Agreement without_this{{StatusCode::io, ECONNABORTED}, {}};
  if (!mask[m_members->own()]) {
    m_job->bury(m_members->own(), Death::excluded);
    return without_this;
  }
  tell_all(FrameKind::decided, epoch, mask);
  if (!may_go_on(m_taking_part, m_members->of_death(Death::ended), mask)) {
    m_job->bury(m_members->own(), Death::alone);
    return without_this;
  }
  Agreement agreement;
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (mask[rank]) agreement.ranks.push_back(rank);
    if (!mask[rank]) m_job->bury(rank, Death::excluded);
  }
  m_taking_part = mask;
  m_members->agreed_on(m_taking_part);
  m_next = ((epoch + 1) << round_bits) + 1;
  const std::scoped_lock lock(m_mutex);
  m_settled = epoch;
  return agreement;
}

Agreement Rounds::agree(std::uint64_t epoch, Deadline deadline) {
  if (!m_mask || m_mask->first != epoch) m_mask = {epoch, m_taking_part};
  RankMask& mask = m_mask->second;
  while (true) {
    const std::uint32_t seen = m_members->news();
    if (!m_members->alive(m_members->own())) return {{StatusCode::io, ECONNABORTED}, {}};
    const RankMask before = mask;
    const bool is_same = shrink(epoch, mask);
    // An outcome counts though who said it has left since.
    if (const auto outcome = outcome_of_another(epoch, before)) return settle(epoch, *outcome);
    if (!mask[m_members->own()]) return settle(epoch, mask);
    if (!m_told || m_told->first != epoch || m_told->second != mask) {
      tell_all(FrameKind::mask, epoch, mask);
      m_told = {epoch, mask};
    }
    if (is_same && !waits_for_ends(epoch, mask)) return settle(epoch, mask);
    if (m_is_stopped || is_given_up(epoch)) return {{StatusCode::cancelled, 0}, {}};
    if (!m_members->wait(seen, deadline)) return {{StatusCode::timeout, 0}, {}};
  }
}

Exchange::Exchange(Members& members, FrameKind kind, Say say, WentOn went_on)
    : m_members(&members), m_kind(kind), m_say(std::move(say)), m_went_on(std::move(went_on)), m_heard(members.world()) {}

void Exchange::hear(std::uint32_t rank, std::uint64_t number, std::vector<std::byte> bytes) {
  const std::scoped_lock lock(m_mutex);
  m_heard[rank].older = std::exchange(m_heard[rank].newer, Part{number, std::move(bytes)});
}

Status Exchange::take_part(std::uint32_t rank, std::uint64_t number, std::span<std::byte> out) {
  // Looked at first: what a rank said before it died or went on counts.
  const bool may_come = m_members->alive(rank) && !m_went_on(rank);
  const std::scoped_lock lock(m_mutex);
  Heard& heard = m_heard[rank];
  for (std::optional<Part>* const part : {&heard.older, &heard.newer}) {
    if (!*part || (*part)->number != number) continue;
    if ((*part)->bytes.size() != out.size()) return corrupt(Corruption::unknown);
    std::ranges::copy((*part)->bytes, out.begin());
    return {};
  }
  if (!may_come || (heard.newer && heard.newer->number > number)) return {StatusCode::io, ECONNRESET};
  return {StatusCode::busy, 0};
}

Status Exchange::gather(std::uint64_t number, const RankMask& taking_part, std::span<const std::byte> mine, std::span<std::byte> all,
                        const Ending& ending, Deadline deadline) {
  const std::uint32_t world = m_members->world();
  if (mine.size() > most_gathered || all.size() != world * mine.size()) return {StatusCode::unsupported, 0};
  const auto bytes = std::make_shared<const std::vector<std::byte>>(mine.begin(), mine.end());
  RankMask missing = taking_part;
  std::ranges::fill(all, std::byte{});
  std::ranges::copy(mine, all.subspan(m_members->own() * mine.size()).begin());
  missing[m_members->own()] = false;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    if (missing[rank]) m_say(rank, m_kind, number, bytes);
  }
  while (true) {
    const std::uint32_t seen = m_members->news();
    if (!m_members->alive(m_members->own())) return {StatusCode::io, ECONNABORTED};
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      if (!missing[rank]) continue;
      const Status status = take_part(rank, number, all.subspan(rank * mine.size(), mine.size()));
      if (status.ok()) missing[rank] = false;
      if (!status.ok() && status.code != StatusCode::busy) return status;
    }
    if (std::ranges::find(missing, true) == missing.end()) return {};
    if (Status status = ending(); !status.ok()) return status;
    if (!m_members->wait(seen, deadline)) return {StatusCode::timeout, 0};
  }
}

Status Exchange::sum(std::uint64_t number, const RankMask& taking_part, std::span<double> values, const Ending& ending, Deadline deadline) {
  const std::span<const std::byte> mine = std::as_bytes(values);
  m_sums.resize(m_members->world() * mine.size());
  const Status status = gather(number, taking_part, mine, m_sums, ending, deadline);
  if (!status.ok()) return status;
  bool is_first = true;
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (!taking_part[rank]) continue;
    const std::byte* const part = m_sums.data() + rank * mine.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      double value = 0;
      std::memcpy(&value, part + i * sizeof value, sizeof value);
      values[i] = is_first ? value : values[i] + value;
    }
    is_first = false;
  }
  return {};
}

}  // namespace dsanalyze::transport
