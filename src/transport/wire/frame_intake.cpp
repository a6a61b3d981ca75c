#include "frame_intake.hpp"

#include <algorithm>
#include <cstring>

namespace dsanalyze::transport {
namespace {

constexpr std::size_t first_message_bytes = 1U << 20U;
constexpr std::size_t stage_beside_body = 512;  // bytes read behind a body: what lies there of the next one is copied

}  // namespace

FrameIntake::Room FrameIntake::room() {
  if (m_begin == m_end) m_begin = m_end = 0;
  const bool has_body = !m_rest.empty();
  const std::size_t staged = has_body ? std::min(m_stage.size() - m_end, stage_beside_body) : m_stage.size() - m_end;
  return {{iovec{m_rest.data(), m_rest.size()}, iovec{m_stage.data() + m_end, staged}}, has_body};
}

std::size_t FrameIntake::add(std::size_t bytes) {
  const std::size_t of_body = std::min(bytes, m_rest.size());
  m_rest = m_rest.subspan(of_body);
  m_end += bytes - of_body;
  return of_body;
}

FrameIntake::Frame FrameIntake::next() {
  using enum Frame::Kind;
  if (m_end - m_begin < head_bytes) return {};
  const std::span<const std::byte> summed(m_stage.data() + m_begin, head_bytes);
  const auto head = parse_head(summed.first<bare_head_bytes>());
  if (!head) return {nonsense};
  if (is_long(head->kind)) {
    std::ranges::copy(summed.first<bare_head_bytes>(), m_head_bytes.begin());
    std::ranges::copy(summed.last<sizeof(FrameSum)>(), m_sum.begin());
    m_head = *head;
    m_begin += head_bytes;
    return {long_head, *head};
  }
  if (m_end - m_begin < head_bytes + head->length) return {};
  const std::span<const std::byte> bytes(m_stage.data() + m_begin + head_bytes, head->length);
  m_begin += head_bytes + head->length;
  if (!m_sums.matches(summed.first<bare_head_bytes>(), bytes, summed.last<sizeof(FrameSum)>())) return {corrupt};
  return {small, *head, bytes};
}

void FrameIntake::start_body(std::span<std::byte> place) {
  m_body = Body::reply;
  m_place = m_rest = place;
}

void FrameIntake::start_message(Body body) {
  m_body = body;
  m_message.resize(std::min<std::size_t>(m_head.length, first_message_bytes));
  m_place = m_rest = m_message;
}

bool FrameIntake::fill_body() {
  while (true) {
    const std::size_t part = std::min(m_rest.size(), m_end - m_begin);
    if (part > 0) std::memcpy(m_rest.data(), m_stage.data() + m_begin, part);
    m_begin += part;
    m_rest = m_rest.subspan(part);
    if (!m_rest.empty()) return false;
    if (m_body == Body::reply || m_message.size() == m_head.length) return true;
    const std::size_t had = m_message.size();
    m_message.resize(std::min<std::size_t>(m_head.length, 2 * had));
    m_place = m_message;
    m_rest = m_place.subspan(had);
  }
}

bool FrameIntake::end_body() {
  m_body = Body::none;
  return m_sums.matches(m_head_bytes, m_place, m_sum);
}

void FrameIntake::make_room() {
  if (m_begin > 0 && m_begin < m_end) std::memmove(m_stage.data(), m_stage.data() + m_begin, m_end - m_begin);
  m_end -= m_begin;
  m_begin = 0;
}

void FrameIntake::clear() {
  m_begin = m_end = 0;
  m_body = Body::none;
  m_place = m_rest = {};
  m_message = {};
}

}  // namespace dsanalyze::transport
