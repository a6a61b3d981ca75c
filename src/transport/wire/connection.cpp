#include "connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "loop.hpp"

namespace dsanalyze::transport {
namespace {

constexpr std::size_t most_read_at_once = 1U << 20U;       // bytes; then other connections have their turn
constexpr std::size_t most_awaited_at_once = 256U << 10U;  // bytes

asio::ip::tcp::socket adopt(Loop& loop, FileDescriptor socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return {loop.context(), address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.release()};
}

}  // namespace

Connection::Connection(Loop& loop, FileDescriptor socket, const FrameKeys& keys, std::uint32_t peer, std::uint32_t number)
    : m_loop(&loop), m_job(&loop.job()), m_peer(peer), m_number(number), m_link{adopt(loop, std::move(socket))}, m_outbox(loop.job()) {
  m_intake.restart(keys.receiving);
  m_outbox.sum_with(keys.sending);
  if (m_number == 0) say_process();
}

void Connection::start() {
  m_times.heard = m_times.answered = m_times.due = m_times.sent = m_job->members.now();
  serve_socket();
}

void Connection::replace_socket(FileDescriptor socket, const FrameKeys& keys) {
  if (m_is_over) return;
  drop_socket();
  m_link.socket = adopt(*m_loop, std::move(socket));
  m_intake.restart(keys.receiving);
  m_outbox.sum_with(keys.sending);
  m_job->counts.reopened.fetch_add(1, std::memory_order_relaxed);
  serve_socket();
}

void Connection::serve_socket() {
  m_link.is_open = true;
  m_times.opened = m_job->members.now();
  m_is_broken = false;
  m_owes_sign = true;
  if (m_job->members.alive(m_peer)) await_reading();
  work();
}

void Connection::say_process() {
  asio::error_code error;
  const auto peer = m_link.socket.remote_endpoint(error);
  const auto process = own_process();
  if (error || !peer.address().is_loopback() || !process) return;
  say(FrameKind::process, 0, std::make_shared<const std::vector<std::byte>>(write_process(*process)));
}

bool Connection::has_ended() const { return m_process && is_gone(*m_process); }

void Connection::note_sending() {
  const Nanoseconds now = m_job->members.now();
  m_was_silent = m_was_silent || now - m_times.sent > m_job->peer_deadline;
  m_times.sent = now;
}

Death Connection::death_of_ended() const {
  const bool is_silent = m_was_silent || m_job->members.now() - m_times.sent > m_job->peer_deadline;
  return is_silent ? Death::silent : Death::ended;
}

void Connection::tune_wakes() {
  const int enough = static_cast<int>(std::clamp<std::size_t>(m_intake.missing(), 1, most_awaited_at_once));
  if (enough != m_link.enough) ::setsockopt(m_link.socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &enough, sizeof enough);
  m_link.enough = enough;
}

void Connection::await_reading() {
  tune_wakes();
  m_link.socket.async_wait(asio::ip::tcp::socket::wait_read, [this, socket = m_link.number](const asio::error_code& error) {
    if (error || !m_link.is_open || socket != m_link.number) return;
    read_available();
    if (m_link.is_open && socket == m_link.number) await_reading();
    m_loop->deliver();
  });
}

void Connection::await_writing() {
  if (m_link.awaits_writing) return;
  m_link.awaits_writing = true;
  m_link.socket.async_wait(asio::ip::tcp::socket::wait_write, [this, socket = m_link.number](const asio::error_code& error) {
    if (socket != m_link.number) return;
    m_link.awaits_writing = false;
    if (error || !m_link.is_open) return;
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
  while (m_link.is_open && budget > 0) {
    const FrameIntake::Room room = m_intake.room();
    const ssize_t got = ::readv(m_link.socket.native_handle(), room.first(), room.count());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      broke();
      return;
    }
    m_times.read = m_job->members.now();
    take(static_cast<std::size_t>(got));
    budget -= std::min(budget, static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < room.bytes()) break;
  }
  // What was asked for is answered at once.
  if (m_link.is_open) write_all();
}

void Connection::take(std::size_t bytes) {
  if (m_intake.add(bytes) > 0 && m_intake.body() == FrameIntake::Body::reply) m_times.answered = m_times.read;
  while (m_link.is_open) {
    if (m_intake.body() == FrameIntake::Body::none) {
      if (!take_frame()) break;
    } else {
      if (!m_intake.fill_body()) break;
      end_body();
    }
  }
  m_intake.make_room();
}

bool Connection::take_frame() {
  const FrameIntake::Frame frame = m_intake.next();
  switch (frame.kind) {
    case FrameIntake::Frame::Kind::incomplete:
      return false;
    case FrameIntake::Frame::Kind::nonsense:
      // What it says is not known to be the other rank's before its sum is: nothing here is held against that one.
      return broke();
    case FrameIntake::Frame::Kind::corrupt:
      return is_corrupt();
    case FrameIntake::Frame::Kind::long_head:
      return begin_body(frame.head);
    case FrameIntake::Frame::Kind::small:
      break;
  }
  return take_head(frame.head) && take_small_frame(frame.head, frame.bytes);
}

bool Connection::begin_body(const FrameHead& head) {
  if (head.kind != FrameKind::reply) {
    m_intake.start_message(FrameIntake::Body::message);
    return true;
  }
  // Its length is no more than what there is room for, because it is what was asked for.
  if (m_asked_here == 0 || m_awaited.front().number != head.number || m_awaited.front().request.bytes != head.length) return broke();
  m_times.answered = m_times.read;
  if (m_awaited.front().is_cancelled) {
    m_intake.start_message(FrameIntake::Body::unwanted);
  } else {
    m_intake.start_body(m_job->places.buffer(m_awaited.front().place).first(head.length));
  }
  return true;
}

void Connection::end_body() {
  const FrameIntake::Body body = m_intake.body();
  const FrameHead head = m_intake.head();
  if (!m_intake.end_body()) {
    is_corrupt();
    return;
  }
  if (!take_head(head)) return;
  std::vector<std::byte> message = m_intake.take_message();
  if (body == FrameIntake::Body::message) {
    if (is_next_message(head)) m_job->hear(m_peer, head, std::move(message));
  } else {
    const AskedSample asked = pop_awaited();
    answer_came();
    complete(asked, {});
  }
}

bool Connection::take_head(const FrameHead& head) {
  m_times.heard = m_times.read;
  m_has_heard.store(true, std::memory_order_release);
  if (head.heard > m_messages.said) return break_off();
  while (!m_messages.unheard.empty() && m_messages.unheard.front().said <= head.heard) {
    m_messages.unheard.pop();
    m_messages.said_here -= m_messages.said_here > 0 ? 1 : 0;
  }
  return true;
}

bool Connection::is_next_message(const FrameHead& head) {
  if (head.said <= m_messages.heard) return false;
  if (head.said > m_messages.heard + 1) return break_off();
  m_outbox.acknowledge(++m_messages.heard);
  return true;
}

bool Connection::is_corrupt() {
  m_job->counts.corrupt.fetch_add(1, std::memory_order_relaxed);
  return broke();
}

bool Connection::broke() {
  drop_socket();
  if (m_is_leaving && m_messages.unheard.empty()) {
    end({StatusCode::cancelled, 0});
  } else if (has_ended() || !m_job->members.alive(m_peer)) {
    lose({StatusCode::io, ECONNRESET}, death_of_ended());
  } else {
    m_is_broken = true;
    m_job->reopen(m_peer, m_number);
  }
  return false;
}

void Connection::drop_socket() {
  ++m_link.number;
  m_link.is_open = m_link.awaits_writing = m_link.has_said_all = false;
  asio::error_code ignored;
  m_link.socket.close(ignored);
  m_outbox.clear();
  m_link.enough = 1;
  m_intake.clear();
  m_messages.said_here = m_asked_here = 0;
  while (!m_served.empty()) m_served.pop();
  for (std::size_t left = m_awaited.size(); left > 0; --left) {
    const AskedSample asked = m_awaited.pop();
    if (!asked.is_cancelled) {
      m_awaited.push(asked);
    } else {
      m_queue.settle_one();
    }
  }
}

}  // namespace dsanalyze::transport
