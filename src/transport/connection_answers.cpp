#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "connection.hpp"
#include "loop.hpp"

// What connections do with frames: requests and their answers, and how they end. How bytes come in is in connection.cpp.

namespace dsanalyze::transport {
namespace {

constexpr Nanoseconds least_bytes_per_second = 1'000'000;  // at which an answer must come once the deadline has passed
constexpr int heartbeats_per_deadline = 4;

}  // namespace

bool Connection::take_requests(const FrameHead& head, std::span<const std::byte> bytes) {
  m_entries.clear();
  parse_entries(bytes, m_entries);
  if (m_served.size() + m_entries.size() > most_asked) return break_off();
  for (std::size_t i = 0; i < m_entries.size(); ++i) m_served.push({m_entries[i], head.number + i});
  return true;
}

bool Connection::take_answer(const FrameHead& head) {
  if (m_awaited.empty() || m_awaited.front().number != head.number) return break_off();
  const Asked asked = m_awaited.pop();
  answer_came();
  complete(asked, head.kind == FrameKind::not_held ? Status{StatusCode::not_found, 0} : corrupt(Corruption::unknown));
  return true;
}

bool Connection::begin_body(const FrameHead& head) {
  m_head = head;
  if (head.kind != FrameKind::reply) {
    m_body = Body::message;
    m_message.resize(head.length);
    m_rest = m_message;
    return true;
  }
  // Its length is no more than what there is room for, because it is what was asked for.
  if (m_awaited.empty() || m_awaited.front().number != head.number || m_awaited.front().request.bytes != head.length) return break_off();
  m_answered = m_heard;
  if (m_awaited.front().is_cancelled) {
    m_body = Body::unwanted;
    m_rest = m_loop->scratch().first(std::min<std::size_t>(head.length, m_loop->scratch().size()));
    m_unwanted = head.length - m_rest.size();
  } else {
    m_body = Body::reply;
    m_rest = m_job->places.buffer(m_awaited.front().place).first(head.length);
  }
  return true;
}

void Connection::end_body() {
  if (m_body == Body::unwanted && m_unwanted > 0) {
    m_rest = m_loop->scratch().first(std::min(m_unwanted, m_loop->scratch().size()));
    m_unwanted -= m_rest.size();
    return;
  }
  const Body body = std::exchange(m_body, Body::none);
  if (body == Body::message) {
    if (checksum_of(m_message, m_head.number) != m_head.checksum) {
      break_off();
      return;
    }
    m_job->hear(m_peer, m_head, std::move(m_message));
    m_message = {};
    return;
  }
  const Asked asked = m_awaited.pop();
  answer_came();
  if (body == Body::unwanted) return;
  const bool is_right = checksum_of(m_job->places.buffer(asked.place).first(asked.request.bytes), m_head.number) == m_head.checksum;
  complete(asked, is_right ? Status{} : corrupt(Corruption::unknown));
}

void Connection::answer_came() {
  m_due = m_answered = m_heard;
  m_unanswered.fetch_sub(1, std::memory_order_relaxed);
}

void Connection::complete(const Asked& asked, Status status) {
  if (asked.is_cancelled) return;
  const Nanoseconds now = m_job->members.now();
  PeerCompletion completion{asked.request.tag, asked.request.sample, m_peer, status, {}, UINT32_MAX, now, now - asked.at};
  if (status.ok()) {
    completion.bytes = m_job->places.buffer(asked.place).first(asked.request.bytes);
    completion.buffer = asked.place;
    m_job->counts.bytes_received.fetch_add(asked.request.bytes, std::memory_order_relaxed);
  } else {
    if (status.code == StatusCode::corrupt) m_job->counts.corrupt.fetch_add(1, std::memory_order_relaxed);
    m_job->places.give_back(std::span(&asked.place, 1));
  }
  m_loop->complete(completion);
}

void Connection::cancel_asked() {
  std::uint64_t before = 0;
  while (true) {
    Asked asked;
    {
      const std::scoped_lock lock(m_mutex);
      before = m_cancelled;
      if (m_asked.empty() || m_asked.front().number >= before) break;
      asked = m_asked.pop();
    }
    m_unanswered.fetch_sub(1, std::memory_order_relaxed);
    complete(asked, {StatusCode::cancelled, 0});
  }
  // One whose bytes are coming in just now is let come.
  for (std::size_t i = m_body == Body::reply ? 1 : 0; i < m_awaited.size() && m_awaited[i].number < before; ++i) {
    complete(m_awaited[i], {StatusCode::cancelled, 0});
    m_awaited[i].is_cancelled = true;
  }
}

void Connection::write_all() {
  while (m_is_open && !m_has_said_all) {
    if (m_outbox.empty()) {
      fill_outbox();
      if (m_outbox.empty()) break;
      m_sent = m_job->members.now();
    }
    if (m_outbox.send(m_socket.native_handle()) < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return await_writing();
      const int error = errno;
      // It may have said why.
      read_available();
      return lose({StatusCode::io, error}, Death::closed);
    }
    m_sent = m_job->members.now();
  }
  // The first connection's end is the sign for the other rank to close all: it carries what ranks say to one another, which is read before its end.
  if (m_is_open && m_is_leaving && m_number == 0 && !m_has_said_all) {
    m_has_said_all = true;
    ::shutdown(m_socket.native_handle(), SHUT_WR);
  }
}

void Connection::fill_outbox() {
  m_entries.clear();
  std::uint64_t first = 0;
  {
    const std::scoped_lock lock(m_mutex);
    if (!m_asked.empty()) first = m_asked.front().number;
    if (m_awaited.empty()) m_due = m_answered = m_job->members.now();
    while (!m_asked.empty() && m_entries.size() < most_entries && m_awaited.size() < most_asked) {
      m_entries.push_back({m_asked.front().request.sample, m_asked.front().request.bytes});
      m_awaited.push(m_asked.pop());
    }
    if (!m_entries.empty()) m_outbox.add_requests(first, m_entries);
    while (!m_said.empty() && m_outbox.has_room()) m_outbox.add_message(m_said.pop());
  }
  while (!m_served.empty() && m_outbox.has_room()) m_outbox.add_answer(m_served.pop());
}

bool Connection::is_overdue(Nanoseconds now) const {
  const Nanoseconds limit = m_job->peer_deadline;
  if (now - m_heard > limit || (!m_outbox.empty() && now - m_sent > limit)) return true;
  if (m_awaited.empty()) return false;
  const Nanoseconds to_come = static_cast<Nanoseconds>(m_awaited.front().request.bytes) * nanoseconds_per_second / least_bytes_per_second;
  return now - m_answered > limit || now - m_due > limit + to_come;
}

void Connection::look() {
  if (!m_is_open) return;
  // This thread may be what was late: then what has come meanwhile is there to be read.
  if (is_overdue(m_job->members.now())) {
    read_available();
    write_all();
    if (m_is_open && is_overdue(m_job->members.now())) return lose({StatusCode::timeout, 0}, Death::silent);
  }
  if (m_is_open && m_outbox.empty() && m_job->members.now() - m_sent >= m_job->peer_deadline / heartbeats_per_deadline) {
    say(FrameKind::heartbeat, 0, nullptr);
    write_all();
  }
}

void Connection::leave() {
  m_is_leaving = true;
  if (!m_is_open) return;
  cancel_all();
  cancel_asked();
  write_all();
}

bool Connection::break_off() {
  m_job->counts.nonsense.fetch_add(1, std::memory_order_relaxed);
  m_job->bury(m_peer, Death::nonsense);
  if (!m_awaited.empty()) {
    m_unanswered.fetch_sub(1, std::memory_order_relaxed);
    const Asked asked = m_awaited.pop();
    complete(asked, corrupt(Corruption::unknown));
  }
  lose({StatusCode::io, EPROTO}, Death::nonsense);
  return false;
}

bool Connection::take_end(const FrameHead& head) {
  const auto death = static_cast<Death>(head.number);
  if (head.number > UINT8_MAX || !may_live(death)) return break_off();
  m_job->bury(m_job->members.own(), death);
  lose({StatusCode::io, ECONNABORTED}, Death::left);
  return false;
}

void Connection::lose(Status status, Death death) {
  if (!m_is_open) return;
  // Dead first: who hears that a request failed can ask whom not to ask any more.
  m_job->bury(m_peer, death);
  tell_given_up();
  end(status);
}

void Connection::hung_up(int error) {
  // Who hangs up in the middle of a frame, on a rank that had stopped, could not say that it goes on without it: there was no room.
  const bool is_in_frame = m_body != Body::none || m_begin != m_end;
  if (is_in_frame && m_loop->was_away()) m_job->bury(m_job->members.own(), Death::silent);
  lose({StatusCode::io, error}, Death::closed);
}

void Connection::tell_given_up() {
  const Death death = m_job->members.death(m_peer);
  if (!may_live(death) || !m_job->members.goes_on()) return;
  const auto send_all = [this] {
    while (!m_outbox.empty()) {
      if (m_outbox.send(m_socket.native_handle()) < 0 && errno != EINTR) return false;
    }
    return true;
  };
  // Behind what has begun, where there is room for all of it.
  if (!send_all()) return;
  m_outbox.add_message({FrameKind::given_up, static_cast<std::uint64_t>(death), nullptr});
  send_all();
}

void Connection::close() {
  if (m_is_open) end({StatusCode::cancelled, 0});
}

void Connection::end(Status status) {
  m_is_open = false;
  {
    const std::scoped_lock lock(m_mutex);
    m_is_lost = true;
    while (!m_said.empty()) m_said.pop();
  }
  asio::error_code ignored;
  m_socket.close(ignored);
  m_outbox.clear();
  m_rest = {};
  m_body = Body::none;
  while (!m_served.empty()) m_served.pop();
  while (!m_awaited.empty()) {
    m_unanswered.fetch_sub(1, std::memory_order_relaxed);
    complete(m_awaited.pop(), status);
  }
  fail_asked(status);
  m_loop->closed();
}

void Connection::fail_asked(Status status) {
  while (true) {
    Asked asked;
    {
      const std::scoped_lock lock(m_mutex);
      if (m_asked.empty()) return;
      asked = m_asked.pop();
    }
    m_unanswered.fetch_sub(1, std::memory_order_relaxed);
    complete(asked, status);
  }
}

}  // namespace dsanalyze::transport
