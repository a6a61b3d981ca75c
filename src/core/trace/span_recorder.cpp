#include "span_recorder.hpp"

#include <algorithm>
#include <memory>

namespace dsanalyze {
namespace {

std::uint32_t blocks_for(std::size_t most_spans) {
  const std::size_t blocks = (most_spans + SpanRecorder::block_spans - 1) / SpanRecorder::block_spans;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(blocks, 1, UINT32_MAX / 2));
}

}  // namespace

bool SpanTrack::next_block() {
  const auto blocks = static_cast<std::uint32_t>(m_recorder.m_next.size());
  // The first look keeps a full recorder from counting on.
  if (m_recorder.m_taken.load(std::memory_order_relaxed) >= blocks) return false;
  const std::uint32_t mine = m_recorder.m_taken.fetch_add(1, std::memory_order_relaxed);
  if (mine >= blocks) return false;
  m_recorder.m_next[mine] = no_block;
  if (m_last == no_block) {
    m_first = mine;
  } else {
    m_recorder.m_next[m_last] = mine;
  }
  m_last = mine;
  m_room = m_recorder.block(mine);
  return true;
}

std::vector<Span> SpanTrack::spans() const {
  std::vector<Span> all;
  for (std::uint32_t number = m_first; number != no_block; number = m_recorder.m_next[number]) {
    const std::span<Span> block = m_recorder.block(number);
    const std::size_t used = block.size() - (number == m_last ? m_room.size() : 0);
    all.insert(all.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(used));
  }
  return all;
}

SpanRecorder::SpanRecorder(std::size_t most_spans) : m_memory(blocks_for(most_spans) * block_spans * sizeof(Span)), m_next(blocks_for(most_spans)) {
  auto* first = reinterpret_cast<Span*>(m_memory.bytes().data());
  m_spans = {first, m_next.size() * block_spans};
  std::uninitialized_default_construct(m_spans.begin(), m_spans.end());  // touches each page, so that no thread waits for one later
}

SpanTrack& SpanRecorder::make_track(SpanTrack::Role role) {
  const std::scoped_lock lock(m_mutex);
  const auto number = std::ranges::count(m_tracks, role, &SpanTrack::role);
  return m_tracks.emplace_back(*this, role, static_cast<std::uint32_t>(number));
}

std::uint64_t SpanRecorder::dropped() const {
  std::uint64_t dropped = 0;
  for (const SpanTrack& track : m_tracks) dropped += track.dropped();
  return dropped;
}

}  // namespace dsanalyze
