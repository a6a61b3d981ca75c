#include "rounds.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dsanalyze::transport {
namespace {

constexpr unsigned round_bits = 32;

}  // namespace

Rounds::Rounds(Job& job, Say say)
    : m_members(&job.members), m_job(&job), m_say(std::move(say)), m_taking_part(job.members.world(), true), m_heard(job.members.world()) {}

bool Rounds::hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes) {
  {
    const std::scoped_lock lock(m_mutex);
    Heard& heard = m_heard[rank];
    if (head.kind == FrameKind::gather) {
      heard.older = std::exchange(heard.newer, Part{head.number, std::move(bytes)});
    } else {
      auto mask = parse_mask(bytes, m_members->world());
      if (!mask) return false;
      heard.masks[head.kind] = {head.number, std::move(*mask)};
    }
  }
  m_members->tell();
  return true;
}

void Rounds::tell_all(FrameKind kind, std::uint64_t number, const SharedBytes& bytes) {
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (rank != m_members->own() && m_members->alive(rank)) m_say(rank, kind, number, bytes);
  }
}

Status Rounds::take_part(std::uint32_t rank, std::uint64_t number, std::span<std::byte> out) {
  // Looked at first: what a rank said before it died counts.
  const bool is_alive = m_members->alive(rank);
  const std::scoped_lock lock(m_mutex);
  Heard& heard = m_heard[rank];
  for (std::optional<Part>* const part : {&heard.older, &heard.newer}) {
    if (!*part || (*part)->number != number) continue;
    if ((*part)->bytes.size() != out.size()) return corrupt(Corruption::unknown);
    std::ranges::copy((*part)->bytes, out.begin());
    return {};
  }
  if (!is_alive || (heard.newer && heard.newer->number > number)) return {StatusCode::io, ECONNRESET};
  return {StatusCode::busy, 0};
}

Status Rounds::gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) {
  const std::uint32_t world = m_members->world();
  if (mine.size() > most_gathered || all.size() != world * mine.size()) return {StatusCode::unsupported, 0};
  const std::uint64_t number = m_next++;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(mine.begin(), mine.end());
  RankMask missing = m_taking_part;
  std::ranges::fill(all, std::byte{});
  std::ranges::copy(mine, all.subspan(m_members->own() * mine.size()).begin());
  missing[m_members->own()] = false;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    if (missing[rank]) m_say(rank, FrameKind::gather, number, bytes);
  }
  while (true) {
    const std::uint32_t seen = m_members->news();
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      if (!missing[rank]) continue;
      const Status status = take_part(rank, number, all.subspan(rank * mine.size(), mine.size()));
      if (status.ok()) missing[rank] = false;
      if (!status.ok() && status.code != StatusCode::busy) return status;
    }
    if (std::ranges::find(missing, true) == missing.end()) return {};
    if (!m_members->wait(seen, deadline)) return {StatusCode::timeout, 0};
  }
}

Status Rounds::sum(std::span<double> values, Deadline deadline) {
  const std::span<const std::byte> mine = std::as_bytes(values);
  m_sums.resize(m_members->world() * mine.size());
  const Status status = gather(mine, m_sums, deadline);
  if (!status.ok()) return status;
  bool is_first = true;
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (!m_taking_part[rank]) continue;
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

std::optional<RankMask> Rounds::outcome_of_another(std::uint64_t epoch, const RankMask& mask) {
  const std::scoped_lock lock(m_mutex);
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    const auto found = m_heard[rank].masks.find(FrameKind::decided);
    if (mask[rank] && found != m_heard[rank].masks.end() && found->second.first == epoch) return found->second.second;
  }
  return std::nullopt;
}

bool Rounds::shrink(std::uint64_t epoch, RankMask& mask) {
  const std::scoped_lock lock(m_mutex);
  const std::uint32_t world = m_members->world();
  const auto said_by = [&](std::uint32_t rank) -> const RankMask* {
    const auto found = m_heard[rank].masks.find(FrameKind::mask);
    return found != m_heard[rank].masks.end() && found->second.first == epoch ? &found->second.second : nullptr;
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
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const RankMask* const said = said_by(rank);
    if (mask[rank] && rank != m_members->own() && (said == nullptr || *said != mask)) return false;
  }
  return true;
}

Agreement Rounds::settle(std::uint64_t epoch, const RankMask& mask) {
  if (!mask[m_members->own()]) return {{StatusCode::io, ECONNABORTED}, {}};
  tell_all(FrameKind::decided, epoch, std::make_shared<const std::vector<std::byte>>(write_mask(mask)));
  Agreement agreement;
  for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
    if (mask[rank]) agreement.ranks.push_back(rank);
    if (!mask[rank]) m_job->bury(rank);
  }
  m_taking_part = mask;
  m_next = ((epoch + 1) << round_bits) + 1;
  return agreement;
}

Agreement Rounds::agree(std::uint64_t epoch, Deadline deadline) {
  RankMask mask = m_taking_part;
  RankMask told;
  while (true) {
    const std::uint32_t seen = m_members->news();
    if (const auto outcome = outcome_of_another(epoch, mask)) return settle(epoch, *outcome);
    const bool is_same = shrink(epoch, mask);
    if (!mask[m_members->own()]) return {{StatusCode::io, ECONNABORTED}, {}};
    if (mask != told) {
      tell_all(FrameKind::mask, epoch, std::make_shared<const std::vector<std::byte>>(write_mask(mask)));
      told = mask;
    }
    if (is_same) return settle(epoch, mask);
    if (!m_members->wait(seen, deadline)) return {{StatusCode::timeout, 0}, {}};
  }
}

}  // namespace dsanalyze::transport
