#include "requests.hpp"

#include <algorithm>

namespace dsanalyze::transport {
namespace {

constexpr std::size_t most_places = 1024;

}  // namespace

bool Requests::is_possible(const PeerRequest& request) const {
  return request.rank < m_job->members.world() && request.rank != m_job->members.own() && request.bytes > 0 &&
         request.bytes <= m_job->places.largest();
}

Status Requests::submit(std::span<const PeerRequest> requests) {
  if (!std::ranges::all_of(requests, [this](const PeerRequest& request) { return is_possible(request); })) return {StatusCode::unsupported, 0};
  std::array<std::uint32_t, most_places> numbers{};
  if (requests.size() > numbers.size()) return {StatusCode::busy, 0};
  const std::span<std::uint32_t> places = std::span(numbers).first(requests.size());
  if (!m_job->places.take(places)) return {StatusCode::busy, 0};
  for (std::size_t i = 0; i < requests.size(); ++i) m_job->places.touch(places[i], requests[i].bytes);
  const Nanoseconds now = m_job->members.now();
  for (std::size_t i = 0; i < requests.size(); ++i) m_lines->least_busy(requests[i].rank).ask(requests[i], places[i], now);
  // Woken once all is there, so that one message asks for all. Each line is woken that may have been asked.
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i > 0 && requests[i].rank == requests[i - 1].rank) continue;
    m_lines->for_each(requests[i].rank, [](Connection* line) {
      if (line->unanswered() > 0) line->loop().wake(*line);
    });
  }
  return {};
}

void Requests::cancel() {
  m_lines->for_all([](Connection& line) {
    line.cancel_all();
    line.loop().wake(line);
  });
}

}  // namespace dsanalyze::transport
