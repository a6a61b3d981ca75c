#include "exchange.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dsanalyze::transport {

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
