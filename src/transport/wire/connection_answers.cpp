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
constexpr Nanoseconds longest_leaving = nanoseconds_per_second / 2;  // without a connection

}  // namespace

bool Connection::take_small_frame(const FrameHead& head, std::span<const std::byte> bytes) {
  switch (head.kind) {
    case FrameKind::request:
      return take_requests(head, bytes);
    case FrameKind::not_held:
    case FrameKind::other_length:
      return take_answer(head);
    case FrameKind::given_up:
      return take_end(head);
    case FrameKind::mask:
    case FrameKind::decided:
      if (is_next_message(head)) m_job->hear(m_peer, head, {bytes.begin(), bytes.end()});
      return m_link.is_open;
    case FrameKind::process:
      if (is_next_message(head)) m_process = parse_process(bytes);
      return m_link.is_open;
    case FrameKind::leaving:
      if (!is_next_message(head)) return m_link.is_open;
      // It waits for the word that it was heard.
      m_owes_sign = true;
      write_all();
      lose({StatusCode::io, ECONNRESET}, Death::ended);
      return false;
    default:
      return true;
  }
}

bool Connection::take_requests(const FrameHead& head, std::span<const std::byte> bytes) {
  m_entries.clear();
  parse_entries(bytes, m_entries);
  if (m_served.size() + m_entries.size() > most_asked) return break_off();
  for (std::size_t i = 0; i < m_entries.size(); ++i) m_served.push({m_entries[i], head.number + i});
  return true;
}

bool Connection::take_answer(const FrameHead& head) {
  if (m_asked_here == 0 || m_awaited.front().number != head.number) return break_off();
  const AskedSample asked = pop_awaited();
  answer_came();
  complete(asked, head.kind == FrameKind::not_held ? Status{StatusCode::not_found, 0} : corrupt(Corruption::unknown));
  return true;
}

AskedSample Connection::pop_awaited() {
  m_asked_here -= m_asked_here > 0 ? 1 : 0;
  return m_awaited.pop();
}

void Connection::answer_came() {
  m_times.due = m_times.answered = m_times.read;
  m_queue.settle_one();
}

void Connection::complete(const AskedSample& asked, Status status) {
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
  while (const auto asked = m_queue.pop_cancelled(before)) {
    m_queue.settle_one();
    complete(*asked, {StatusCode::cancelled, 0});
  }
  // One whose bytes are coming in just now is let come.
  for (std::size_t i = m_intake.body() == FrameIntake::Body::reply ? 1 : 0; i < m_awaited.size() && m_awaited[i].number < before; ++i) {
    complete(m_awaited[i], {StatusCode::cancelled, 0});
    m_awaited[i].is_cancelled = true;
  }
}

void Connection::write_all() {
  while (m_link.is_open && !m_link.has_said_all) {
    if (m_outbox.empty()) {
      fill_outbox();
      if (m_outbox.empty()) break;
      note_sending();
    }
    if (m_outbox.send(m_link.socket.native_handle()) < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return await_writing();
      // It may have said why.
      read_available();
      if (m_link.is_open) broke();
      return;
    }
    note_sending();
  }
  // The first connection's end is the sign for the other rank to close all: it carries what ranks say to one another, which is read before its end.
  if (m_link.is_open && m_is_leaving && m_number == 0 && !m_link.has_said_all) {
    m_link.has_said_all = true;
    ::shutdown(m_link.socket.native_handle(), SHUT_WR);
  }
}

void Connection::fill_outbox() {
  add_requests();
  add_messages();
  while (!m_served.empty() && m_outbox.has_room()) m_outbox.add_answer(m_served.pop());
  if (m_owes_sign && m_outbox.empty()) m_outbox.add_message({FrameKind::heartbeat, 0, 0, nullptr});
  m_owes_sign = false;
}

void Connection::add_requests() {
  m_entries.clear();
  std::uint64_t first = 0;
  // Of those that are awaited and were not sent over this socket, as many as have numbers without a gap.
  const auto add_awaited = [&] {
    while (m_asked_here < m_awaited.size() && m_entries.size() < most_entries) {
      const AskedSample& asked = m_awaited[m_asked_here];
      if (m_entries.empty()) first = asked.number;
      if (asked.number != first + m_entries.size()) break;
      m_entries.push_back({asked.request.sample, asked.request.bytes});
      ++m_asked_here;
    }
  };
  // What was asked over an earlier socket comes first.
  add_awaited();
  if (m_entries.empty()) {
    if (m_awaited.empty()) m_times.due = m_times.answered = m_job->members.now();
    if (m_awaited.size() < most_asked) m_queue.take_asked(std::min<std::size_t>(most_entries, most_asked - m_awaited.size()), m_awaited);
    add_awaited();
  }
  if (!m_entries.empty()) m_outbox.add_requests(first, m_entries);
}

void Connection::add_messages() {
  m_queue.take_said([this](Message message) {
    message.said = ++m_messages.said;
    m_messages.unheard.push(std::move(message));
  });
  while (m_messages.said_here < m_messages.unheard.size() && m_outbox.has_room()) m_outbox.add_message(m_messages.unheard[m_messages.said_here++]);
}

Nanoseconds Connection::time_to_come(std::size_t bytes) const {
  return m_job->peer_deadline + static_cast<Nanoseconds>(bytes) * nanoseconds_per_second / least_bytes_per_second;
}

bool Connection::is_overdue(Nanoseconds now) const {
  const Nanoseconds limit = m_job->peer_deadline;
  // What is coming in is not known to be the other rank's before it is whole: it counts for as long as it takes at the least rate, no longer.
  if (now - m_times.heard > time_to_come(m_intake.of_body()) || (!m_outbox.empty() && now - m_times.sent > limit)) return true;
  return !m_awaited.empty() && (now - m_times.answered > limit || now - m_times.due > time_to_come(m_awaited.front().request.bytes));
}

bool Connection::is_stuck(Nanoseconds now) const {
  return m_link.is_open && m_intake.has_begun() && now - std::max(m_times.heard, m_times.opened) > time_to_come(m_intake.of_body()) / 2;
}

void Connection::look() {
  if (m_is_over) return;
  // This thread may be what was late: then what has come meanwhile is there to be read.
  if (const Nanoseconds now = m_job->members.now(); is_overdue(now) || is_stuck(now)) {
    read_available();
    write_all();
    if (m_is_over) return;
    if (is_overdue(m_job->members.now())) return lose({StatusCode::timeout, 0}, Death::silent);
    if (is_stuck(m_job->members.now())) broke();
    if (m_link.is_open) tune_wakes();
  }
  if (!m_link.is_open && has_ended()) return lose({StatusCode::io, ECONNRESET}, death_of_ended());
  if (!m_link.is_open && m_is_leaving && m_job->members.now() - m_left > longest_leaving) return end({StatusCode::cancelled, 0});
  if (!m_link.is_open || !m_outbox.empty()) return;
  const bool is_quiet = m_job->members.now() - m_times.sent >= m_job->peer_deadline / heartbeats_per_deadline;
  m_owes_sign = is_quiet || m_outbox.acknowledged() != m_messages.heard;
  if (m_owes_sign) write_all();
}

void Connection::leave() {
  m_is_leaving = true;
  m_left = m_job->members.now();
  if (m_is_over) return;
  cancel_all();
  cancel_asked();
  if (m_number == 0) say(FrameKind::leaving, 0, nullptr);
  if (m_link.is_open) return write_all();
  // What was said is said again where the connection is opened anew in time.
  if (m_number > 0) end({StatusCode::cancelled, 0});
}

bool Connection::break_off() {
  m_job->counts.nonsense.fetch_add(1, std::memory_order_relaxed);
  m_job->bury(m_peer, Death::nonsense);
  if (!m_awaited.empty()) {
    m_queue.settle_one();
    complete(pop_awaited(), corrupt(Corruption::unknown));
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
  if (m_is_over) return;
  // Lost first: who hears that a request failed can ask whom not to ask any more.
  m_job->bury(m_peer, death);
  if (m_link.is_open) say_last_words();
  end(status);
}

void Connection::say_last_words() {
  const Death death = m_job->members.death(m_peer);
  const bool is_given_up = may_live(death) && m_job->members.goes_on();
  const bool leaves = m_number == 0 && !m_job->members.alive(m_job->members.own());
  if (!is_given_up && !leaves) return;
  while (!m_served.empty()) m_served.pop();
  if (leaves) say(FrameKind::leaving, 0, nullptr);
  // Behind what has begun, where there is room for all of it.
  const auto send_all = [this] {
    while (!m_outbox.empty()) {
      if (m_outbox.send(m_link.socket.native_handle()) < 0 && errno != EINTR) return false;
      if (m_outbox.empty()) add_messages();
    }
    return true;
  };
  if (m_outbox.empty()) add_messages();
  if (!send_all() || !is_given_up) return;
  m_outbox.add_message({FrameKind::given_up, static_cast<std::uint64_t>(death), 0, nullptr});
  send_all();
}

void Connection::close() {
  if (!m_is_over) end({StatusCode::cancelled, 0});
}

void Connection::end(Status status) {
  m_is_over = true;
  m_queue.lose();
  drop_socket();
  while (!m_messages.unheard.empty()) m_messages.unheard.pop();
  while (!m_awaited.empty()) {
    m_queue.settle_one();
    complete(m_awaited.pop(), status);
  }
  fail_asked(status);
  m_loop->closed();
}

void Connection::fail_asked(Status status) {
  while (const auto asked = m_queue.pop()) {
    m_queue.settle_one();
    complete(*asked, status);
  }
}

}  // namespace dsanalyze::transport
