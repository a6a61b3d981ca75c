#include "connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "loop.hpp"

namespace dsanalyze::transport {
namespace {

constexpr std::size_t most_read_at_once = 1U << 20U;       // bytes; then other connections have their turn
constexpr std::size_t most_awaited_at_once = 256U << 10U;  // bytes
constexpr std::size_t stage_beside_body = 512;             // bytes read behind a body: what lies there of the next one is copied

asio::ip::tcp::socket adopt(Loop& loop, FileDescriptor socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return {loop.context(), address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.release()};
}

}  // namespace

Connection::Connection(Loop& loop, FileDescriptor socket, std::uint32_t peer, std::uint32_t number)
    : m_loop(&loop), m_job(&loop.job()), m_peer(peer), m_number(number), m_socket(adopt(loop, std::move(socket))), m_outbox(loop.job()) {}

void Connection::ask(const PeerRequest& request, std::uint32_t place, Nanoseconds now) {
  m_unanswered.fetch_add(1, std::memory_order_relaxed);
  const std::scoped_lock lock(m_mutex);
  m_asked.push({request, place, now, m_next++, false});
}

void Connection::say(FrameKind kind, std::uint64_t number, std::shared_ptr<const std::vector<std::byte>> bytes) {
  const std::scoped_lock lock(m_mutex);
  if (!m_is_lost) m_said.push({kind, number, std::move(bytes)});
}

void Connection::cancel_all() {
  const std::scoped_lock lock(m_mutex);
  m_cancelled = m_next;
}

void Connection::start() {
  m_is_open = true;
  m_heard = m_answered = m_due = m_sent = m_job->members.now();
  if (!m_job->members.alive(m_peer)) return lose({StatusCode::io, ECONNRESET}, Death::closed);
  await_reading();
  work();
}

void Connection::await_reading() {
  // Of a body that has begun the rest will come, and is of no use before: no wake for parts of it.
  const int enough = static_cast<int>(std::clamp<std::size_t>(m_rest.size(), 1, most_awaited_at_once));
  if (enough != m_enough) ::setsockopt(m_socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough);
  m_enough = enough;
  m_socket.async_wait(asio::ip::tcp::socket::wait_read, [this](const asio::error_code& error) {
    if (error || !m_is_open) return;
    read_available();
    if (m_is_open) await_reading();
    m_loop->deliver();
  });
}

void Connection::await_writing() {
  if (m_awaits_writing) return;
  m_awaits_writing = true;
  m_socket.async_wait(asio::ip::tcp::socket::wait_write, [this](const asio::error_code& error) {
    m_awaits_writing = false;
    if (error || !m_is_open) return;
    write_all();
    m_loop->deliver();
  });
}

void Connection::work() {
  if (m_is_open && !m_job->members.alive(m_peer)) {
    // What it still said is read: it may be that it goes on without this rank.
    if (m_job->members.alive(m_job->members.own())) read_available();
    lose({StatusCode::io, ECONNRESET}, Death::closed);
  }
  if (!m_is_open) return fail_asked({StatusCode::io, ECONNRESET});
  cancel_asked();
  write_all();
}

void Connection::read_available() {
  std::size_t budget = most_read_at_once;
  while (m_is_open && budget > 0) {
    if (m_begin == m_end) m_begin = m_end = 0;
    const std::size_t room = m_rest.empty() ? m_stage.size() - m_end : std::min(m_stage.size() - m_end, stage_beside_body);
    const std::array<iovec, 2> parts{iovec{m_rest.data(), m_rest.size()}, iovec{m_stage.data() + m_end, room}};
    const std::size_t wanted = m_rest.size() + room;
    const bool has_body = !m_rest.empty();
    const ssize_t got = ::readv(m_socket.native_handle(), has_body ? parts.data() : parts.data() + 1, has_body ? 2 : 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return hung_up(got < 0 ? errno : ECONNRESET);
    m_heard = m_job->members.now();
    take(static_cast<std::size_t>(got));
    budget -= std::min(budget, static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < wanted) break;
  }
  // What was asked for is answered at once.
  if (m_is_open) write_all();
}

void Connection::take(std::size_t bytes) {
  const std::size_t of_body = std::min(bytes, m_rest.size());
  if (of_body > 0) {
    m_answered = m_heard;
    m_rest = m_rest.subspan(of_body);
  }
  m_end += bytes - of_body;
  while (m_is_open) {
    if (m_body != Body::none) {
      const std::size_t part = std::min(m_rest.size(), m_end - m_begin);
      if (part > 0) std::memcpy(m_rest.data(), m_stage.data() + m_begin, part);
      m_begin += part;
      m_rest = m_rest.subspan(part);
      if (!m_rest.empty()) return;
      end_body();
    } else if (!take_frame()) {
      break;
    }
  }
  // What is left is the beginning of a frame: it gets room for the rest.
  if (m_begin > 0 && m_begin < m_end) std::memmove(m_stage.data(), m_stage.data() + m_begin, m_end - m_begin);
  m_end -= m_begin;
  m_begin = 0;
}

bool Connection::take_frame() {
  if (m_end - m_begin < head_bytes) return false;
  const auto head = parse_head(std::span<const std::byte, head_bytes>(m_stage.data() + m_begin, head_bytes));
  if (!head) return break_off();
  if (is_long(head->kind)) {
    m_begin += head_bytes;
    return begin_body(*head);
  }
  if (m_end - m_begin < head_bytes + head->length) return false;
  const std::span<const std::byte> bytes(m_stage.data() + m_begin + head_bytes, head->length);
  m_begin += head_bytes + head->length;
  if (checksum_of(bytes, head->number) != head->checksum) return break_off();
  if (head->kind == FrameKind::request) return take_requests(*head, bytes);
  if (head->kind == FrameKind::not_held || head->kind == FrameKind::other_length) return take_answer(*head);
  if (head->kind == FrameKind::given_up) return take_end(*head);
  if (head->kind != FrameKind::heartbeat) m_job->hear(m_peer, *head, {bytes.begin(), bytes.end()});
  return true;
}

}  // namespace dsanalyze::transport
