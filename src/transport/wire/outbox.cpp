#include "outbox.hpp"

#include <sys/socket.h>

#include <algorithm>

namespace dsanalyze::transport {

void Outbox::add(FrameKind kind, std::uint64_t number, std::uint64_t said, std::span<const std::byte> bytes) {
  SummedHead& head = m_heads[m_frames];
  head.head = write_head({kind, static_cast<std::uint32_t>(bytes.size()), number, said, m_heard});
  head.sum = m_sums.next(head.head, bytes);
  m_acknowledged = m_heard;
  ++m_frames;
  m_parts[m_count] = {&head, sizeof head};
  ++m_count;
  m_bytes += sizeof head + bytes.size();
  if (bytes.empty()) return;
  m_parts[m_count] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  ++m_count;
}

void Outbox::add_requests(std::uint64_t first_number, std::span<const RequestEntry> entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    write_entry(entries[i], std::span<std::byte, entry_bytes>(m_requests.data() + i * entry_bytes, entry_bytes));
  }
  add(FrameKind::request, first_number, 0, std::span(m_requests).first(entries.size() * entry_bytes));
}

void Outbox::add_message(Message message) {
  Message& kept = m_messages[m_frames];
  kept = std::move(message);
  add(kept.kind, kept.number, kept.said, kept.bytes ? std::span<const std::byte>(*kept.bytes) : std::span<const std::byte>());
}

void Outbox::add_answer(const ServedRequest& request) {
  if (!m_is_pinned) m_job->held.pin();
  m_is_pinned = true;
  const std::span<const std::byte> bytes = m_job->held.borrow(request.entry.sample);
  if (bytes.size() == request.entry.bytes && !bytes.empty()) {
    add(FrameKind::reply, request.number, 0, bytes);
    m_job->counts.requests_served.fetch_add(1, std::memory_order_relaxed);
    m_job->counts.bytes_sent.fetch_add(bytes.size(), std::memory_order_relaxed);
  } else {
    add(bytes.empty() ? FrameKind::not_held : FrameKind::other_length, request.number, 0, {});
    m_job->counts.requests_refused.fetch_add(1, std::memory_order_relaxed);
  }
}

ssize_t Outbox::send(int socket) {
  msghdr message{};
  message.msg_iov = m_parts.data() + m_first;
  message.msg_iovlen = m_count - m_first;
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  for (std::size_t rest = sent > 0 ? static_cast<std::size_t>(sent) : 0; rest > 0;) {
    iovec& part = m_parts[m_first];
    const std::size_t done = std::min(rest, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + done;
    part.iov_len -= done;
    rest -= done;
    if (part.iov_len == 0) ++m_first;
  }
  if (empty()) clear();
  return sent;
}

void Outbox::clear() {
  if (m_is_pinned) m_job->held.unpin();
  m_is_pinned = false;
  for (std::size_t i = 0; i < m_frames; ++i) m_messages[i].bytes.reset();
  m_frames = m_first = m_count = m_bytes = 0;
}

}  // namespace dsanalyze::transport
