#include "connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "loop.hpp"

namespace dsanalyze::transport {
namespace {

constexpr std::size_t most_read_at_once = 1U << 20U;       // bytes; then other connections have their turn
constexpr std::size_t most_awaited_at_once = 256U << 10U;  // bytes
constexpr std::size_t first_message_bytes = 1U << 20U;
constexpr std::size_t stage_beside_body = 512;  // bytes read behind a body: what lies there of the next one is copied

asio::ip::tcp::socket adopt(Loop& loop, FileDescriptor socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return {loop.context(), address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.release()};
}

}  // namespace

Connection::Connection(Loop& loop, FileDescriptor socket, const FrameKeys& keys, std::uint32_t peer, std::uint32_t number)
    : m_loop(&loop),
      m_job(&loop.job()),
      m_peer(peer),
      m_number(number),
      m_socket(adopt(loop, std::move(socket))),
      m_received(keys.receiving),
      m_outbox(loop.job()) {
  m_outbox.sum_with(keys.sending);
  if (m_number == 0) say_process();
}

void Connection::ask(const PeerRequest& request, std::uint32_t place, Nanoseconds now) {
  m_unanswered.fetch_add(1, std::memory_order_relaxed);
  const std::scoped_lock lock(m_mutex);
  m_asked.push({request, place, now, m_next++, false});
}

void Connection::say(FrameKind kind, std::uint64_t number, std::shared_ptr<const std::vector<std::byte>> bytes) {
  const std::scoped_lock lock(m_mutex);
  if (!m_is_lost) m_said.push({kind, number, 0, std::move(bytes)});
}

void Connection::cancel_all() {
  const std::scoped_lock lock(m_mutex);
  m_cancelled = m_next;
}

void Connection::start() {
  m_heard = m_answered = m_due = m_sent = m_job->members.now();
  serve_socket();
}

void Connection::replace_socket(FileDescriptor socket, const FrameKeys& keys) {
  if (m_is_over) return;
  drop_socket();
  m_socket = adopt(*m_loop, std::move(socket));
  m_received = keys.receiving;
  m_outbox.sum_with(keys.sending);
  m_job->counts.reopened.fetch_add(1, std::memory_order_relaxed);
  serve_socket();
}

void Connection::serve_socket() {
  m_is_open = true;
  m_opened = m_job->members.now();
  m_is_broken = false;
  m_owes_sign = true;
  if (m_job->members.alive(m_peer)) await_reading();
  work();
}

void Connection::say_process() {
  asio::error_code error;
  const auto peer = m_socket.remote_endpoint(error);
  const auto process = own_process();
  if (error || !peer.address().is_loopback() || !process) return;
  say(FrameKind::process, 0, std::make_shared<const std::vector<std::byte>>(write_process(*process)));
}

bool Connection::has_ended() const { return m_process && is_gone(*m_process); }

void Connection::tune_wakes() {
  const int enough = static_cast<int>(std::clamp<std::size_t>(m_rest.size(), 1, most_awaited_at_once));
  if (enough != m_enough) ::setsockopt(m_socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough);
  m_enough = enough;
}

void Connection::await_reading() {
  tune_wakes();
  m_socket.async_wait(asio::ip::tcp::socket::wait_read, [this, socket = m_sockets](const asio::error_code& error) {
    if (error || !m_is_open || socket != m_sockets) return;
    read_available();
    if (m_is_open && socket == m_sockets) await_reading();
    m_loop->deliver();
  });
}

void Connection::await_writing() {
  if (m_awaits_writing) return;
  m_awaits_writing = true;
  m_socket.async_wait(asio::ip::tcp::socket::wait_write, [this, socket = m_sockets](const asio::error_code& error) {
    if (socket != m_sockets) return;
    m_awaits_writing = false;
    if (error || !m_is_open) return;
    write_all();
    m_loop->deliver();
  });
}

void Connection::work() {
  if (!m_is_over && !m_job->members.alive(m_peer)) {
    // What it still said is read: it may be that it goes on without this rank.
    if (m_job->members.alive(m_job->members.own())) read_available();
    lose({StatusCode::io, ECONNRESET}, Death::ended);
  }
  if (m_is_over) return fail_asked({StatusCode::io, ECONNRESET});
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
    if (got <= 0) {
      broke();
      return;
    }
    m_read = m_job->members.now();
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
    if (m_body == Body::reply) m_answered = m_read;
    m_rest = m_rest.subspan(of_body);
  }
  m_end += bytes - of_body;
  while (m_is_open) {
    if (m_body != Body::none) {
      const std::size_t part = std::min(m_rest.size(), m_end - m_begin);
      if (part > 0) std::memcpy(m_rest.data(), m_stage.data() + m_begin, part);
      m_begin += part;
      m_rest = m_rest.subspan(part);
      if (!m_rest.empty()) break;
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
  const std::span<const std::byte> summed(m_stage.data() + m_begin, head_bytes);
  const auto head = parse_head(summed.first<bare_head_bytes>());
  // What it says is not known to be the other rank's before its sum is: nothing here is held against that one.
  if (!head) return broke();
  if (is_long(head->kind)) {
    std::ranges::copy(summed.first<bare_head_bytes>(), m_head_bytes.begin());
    std::ranges::copy(summed.last<sizeof(FrameSum)>(), m_sum.begin());
    m_begin += head_bytes;
    return begin_body(*head);
  }
  if (m_end - m_begin < head_bytes + head->length) return false;
  const std::span<const std::byte> bytes(m_stage.data() + m_begin + head_bytes, head->length);
  m_begin += head_bytes + head->length;
  if (!m_received.matches(summed.first<bare_head_bytes>(), bytes, summed.last<sizeof(FrameSum)>())) return is_corrupt();
  return take_head(*head) && take_small_frame(*head, bytes);
}

bool Connection::begin_body(const FrameHead& head) {
  m_head = head;
  if (head.kind == FrameKind::reply) {
    // Its length is no more than what there is room for, because it is what was asked for.
    if (m_asked_here == 0 || m_awaited.front().number != head.number || m_awaited.front().request.bytes != head.length) return broke();
    m_answered = m_read;
    if (!m_awaited.front().is_cancelled) {
      m_body = Body::reply;
      m_rest = m_job->places.buffer(m_awaited.front().place).first(head.length);
      return true;
    }
  }
  m_body = head.kind == FrameKind::reply ? Body::unwanted : Body::message;
  // Grows as its bytes come: its length is not known to be the other rank's.
  m_message.resize(std::min<std::size_t>(head.length, first_message_bytes));
  m_rest = m_message;
  return true;
}

void Connection::end_body() {
  if (m_body != Body::reply && m_message.size() < m_head.length) {
    const std::size_t had = m_message.size();
    m_message.resize(std::min<std::size_t>(m_head.length, 2 * had));
    m_rest = std::span(m_message).subspan(had);
    return;
  }
  const Body body = std::exchange(m_body, Body::none);
  const std::span<const std::byte> bytes =
      body == Body::reply ? m_job->places.buffer(m_awaited.front().place).first(m_head.length) : std::span<std::byte>(m_message);
  if (!m_received.matches(m_head_bytes, bytes, m_sum)) {
    is_corrupt();
    return;
  }
  if (!take_head(m_head)) return;
  if (body == Body::message) {
    if (is_next_message(m_head)) m_job->hear(m_peer, m_head, std::move(m_message));
  } else {
    const Asked asked = pop_awaited();
    answer_came();
    complete(asked, {});
  }
  if (body != Body::reply) m_message = {};
}

bool Connection::take_head(const FrameHead& head) {
  m_heard = m_read;
  m_has_heard.store(true, std::memory_order_release);
  if (head.heard > m_messages) return break_off();
  while (!m_unheard.empty() && m_unheard.front().said <= head.heard) {
    m_unheard.pop();
    m_said_here -= m_said_here > 0 ? 1 : 0;
  }
  return true;
}

bool Connection::is_next_message(const FrameHead& head) {
  if (head.said <= m_messages_heard) return false;
  if (head.said > m_messages_heard + 1) return break_off();
  m_outbox.acknowledge(++m_messages_heard);
  return true;
}

bool Connection::is_corrupt() {
  m_job->counts.corrupt.fetch_add(1, std::memory_order_relaxed);
  return broke();
}

bool Connection::broke() {
  drop_socket();
  if (m_is_leaving && m_unheard.empty()) {
    end({StatusCode::cancelled, 0});
  } else if (has_ended() || !m_job->members.alive(m_peer)) {
    lose({StatusCode::io, ECONNRESET}, Death::ended);
  } else {
    m_is_broken = true;
    m_job->reopen(m_peer, m_number);
  }
  return false;
}

void Connection::drop_socket() {
  ++m_sockets;
  m_is_open = m_awaits_writing = m_has_said_all = false;
  asio::error_code ignored;
  m_socket.close(ignored);
  m_outbox.clear();
  m_enough = 1;
  m_begin = m_end = 0;
  m_rest = {};
  m_body = Body::none;
  m_message = {};
  m_said_here = m_asked_here = 0;
  while (!m_served.empty()) m_served.pop();
  for (std::size_t left = m_awaited.size(); left > 0; --left) {
    const Asked asked = m_awaited.pop();
    if (!asked.is_cancelled) {
      m_awaited.push(asked);
    } else {
      m_unanswered.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

}  // namespace dsanalyze::transport
