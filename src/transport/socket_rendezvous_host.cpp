#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/base/text.hpp"
#include "file_rendezvous.hpp"
#include "introduction.hpp"
#include "meeting_place.hpp"
#include "socket_rendezvous.hpp"
#include "sodium.hpp"

namespace dsanalyze {
namespace {

constexpr int poll_milliseconds = 20;
constexpr int most_waiting = 1024;
constexpr std::size_t most_at_once = 4096;  // bytes

enum class Stage : std::uint8_t { proving, introducing, waiting, gone };

struct Guest {
  FileDescriptor socket;
  Greeting greeting;
  Deadline deadline;
  Stage stage = Stage::proving;
  std::string in;
  std::string out;
  std::optional<SealedLine> line;
  std::uint32_t rank = 0;
};

/// Rank 0 of a meeting at a port. One thread, no connection waits for another.
class PortHost {
 public:
  PortHost(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop)
      : m_place(place),
        m_meeting(meeting),
        m_timing(timing),
        m_stop(stop),
        m_deadline(timing.clock->after(meeting.timeout_seconds)),
        m_keyed(meeting.key ? Keyed::yes : Keyed::no),
        m_all(meeting.world),
        m_came(meeting.world, 0) {
    m_all[0] = introduce(meeting);
    m_came[0] = 1;
    listen();
  }
  Roster run();

 private:
  void listen();
  void turn();
  void accept_guests();
  void read_from(Guest& guest);
  void take_proof(Guest& guest);
  void take_introduction(Guest& guest);
  void write_to(Guest& guest);
  void drop(Guest& guest);
  void drop_late_and_gone();
  void tell_all(const std::string& text);
  [[noreturn]] void refuse(const Error& error);
  [[nodiscard]] JobKey key() const { return m_meeting.key ? m_meeting.key->bytes() : JobKey{}; }
  [[nodiscard]] std::vector<std::uint32_t> missing() const;

  std::string_view m_place;
  const Meeting& m_meeting;
  Timing m_timing;
  std::stop_token m_stop;
  Deadline m_deadline;
  Keyed m_keyed;
  FileDescriptor m_listener;
  std::list<Guest> m_guests;
  std::vector<Introduction> m_all;
  std::vector<char> m_came;
  std::string m_refusal;
  std::string m_last_words;   ///< for those who come after a refusal
  std::size_t m_dropped = 0;  ///< that did not prove that they know the key
};

void PortHost::listen() {
  int error = EADDRNOTAVAIL;
  for (const SocketAddress& address : resolve_place(m_place, m_keyed)) {
    FileDescriptor socket(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (socket.valid()) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.valid() && ::bind(socket.get(), address.get(), address.size) == 0 && ::listen(socket.get(), most_waiting) == 0) {
      m_listener = std::move(socket);
      return;
    }
    error = errno;
  }
  const auto cannot = [&](std::string_view why) {
    return UsageError(fmt::format("rank 0 cannot listen at --rendezvous {}: {}", printable(m_place), why));
  };
  if (error == EADDRINUSE) throw cannot("another program listens there; use another port");
  if (error == EADDRNOTAVAIL) throw cannot("that is no address of this machine; pass one of the machine that rank 0 runs on");
  if (error == EACCES) throw cannot("not allowed; use a port of 1024 or above");
  throw cannot(describe_errno(error));
}

void PortHost::accept_guests() {
  for (;;) {
    FileDescriptor socket(::accept4(m_listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // No descriptor is free: the oldest stranger's is, and the next turn takes who waits.
      if (errno == EMFILE || errno == ENFILE) {
        const auto stranger = std::ranges::find(m_guests, Stage::proving, &Guest::stage);
        if (stranger != m_guests.end()) m_guests.erase(stranger);
      }
      return;
    }
    if (m_keyed == Keyed::no && !other_end_is_this_users(socket.get())) {
      ++m_dropped;
      continue;
    }
    const auto proving = static_cast<std::size_t>(std::ranges::count(m_guests, Stage::proving, &Guest::stage));
    if (proving >= most_strangers) m_guests.erase(std::ranges::find(m_guests, Stage::proving, &Guest::stage));
    Guest guest{std::move(socket), new_greeting(m_keyed), m_timing.clock->after(prove_seconds), Stage::proving, "", "", {}, 0};
    guest.out = to_bytes(guest.greeting);
    m_guests.push_back(std::move(guest));
  }
}

void PortHost::drop(Guest& guest) {
  if (guest.stage == Stage::proving) ++m_dropped;
  if (guest.stage == Stage::waiting && m_refusal.empty()) m_came[guest.rank] = 0;  // it may come again
  guest.stage = Stage::gone;
}

void PortHost::take_proof(Guest& guest) {
  if (guest.in.size() < bytes_before_proof) return;
  const auto greeting = parse_greeting(std::string_view(guest.in).substr(0, greeting_bytes));
  if (!greeting || greeting->protocol != rank_protocol || greeting->keyed != m_keyed) return drop(guest);
  guest.line.emplace(End::listens, key(), guest.greeting, *greeting);
  if (!guest.line->is_proof_of_other(std::string_view(guest.in).substr(greeting_bytes, proof_bytes))) return drop(guest);
  guest.in.erase(0, bytes_before_proof);
  guest.out += guest.line->own_proof();
  guest.stage = Stage::introducing;
  guest.deadline = m_timing.clock->after(prove_seconds);
}

void PortHost::take_introduction(Guest& guest) {
  std::string text;
  switch (guest.line->open(guest.in, most_introduction, text)) {
    case SealedLine::Opened::more:
      return;
    case SealedLine::Opened::broken:
      return drop(guest);
    case SealedLine::Opened::yes:
      break;
  }
  auto who = parse_introduction(text);
  if (!who) return drop(guest);
  guest.stage = Stage::waiting;
  guest.deadline = {INT64_MAX};
  guest.rank = std::min(who->rank, m_meeting.world - 1);
  if (!m_last_words.empty()) guest.out += guest.line->seal(m_last_words);
  if (!m_refusal.empty()) {
    m_came[guest.rank] = 1;
    return;
  }
  if (const std::string why = contradiction(m_all[0], *who, m_meeting.key); !why.empty()) {
    m_refusal = refusal_of(UsageError(why));
  } else if (m_came[who->rank] != 0) {
    m_refusal = refusal_of(UsageError(two_of_one_rank(who->rank)));
  } else {
    m_came[who->rank] = 1;
    m_all[who->rank] = std::move(*who);
  }
}

void PortHost::read_from(Guest& guest) {
  const std::size_t most = guest.stage == Stage::proving ? bytes_before_proof - std::min(bytes_before_proof, guest.in.size()) : most_at_once;
  char bytes[most_at_once];
  const ssize_t got = ::recv(guest.socket.get(), bytes, std::min(most, sizeof bytes), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || guest.stage == Stage::waiting) return drop(guest);  // who waits has nothing to say
  guest.in.append(bytes, static_cast<std::size_t>(got));
  if (guest.stage == Stage::proving) take_proof(guest);
  if (guest.stage == Stage::introducing) take_introduction(guest);
}

void PortHost::write_to(Guest& guest) {
  const ssize_t written = ::send(guest.socket.get(), guest.out.data(), guest.out.size(), MSG_NOSIGNAL);
  if (written < 0 && errno != EAGAIN && errno != EINTR) return drop(guest);
  if (written > 0) guest.out.erase(0, static_cast<std::size_t>(written));
}

void PortHost::drop_late_and_gone() {
  const Nanoseconds now = m_timing.clock->now();
  for (Guest& guest : m_guests) {
    if (guest.stage != Stage::gone && now >= guest.deadline.at) drop(guest);
  }
  std::erase_if(m_guests, [](const Guest& guest) { return guest.stage == Stage::gone; });
}

void PortHost::turn() {
  std::vector<pollfd> entries{{m_listener.get(), POLLIN, 0}};
  for (const Guest& guest : m_guests) {
    entries.push_back({guest.socket.get(), static_cast<short>(guest.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  }
  if (::poll(entries.data(), entries.size(), poll_milliseconds) > 0) {
    std::size_t entry = 1;
    for (Guest& guest : m_guests) {
      const short events = entries[entry++].revents;
      if ((events & POLLOUT) != 0) write_to(guest);
      if (guest.stage != Stage::gone && (events & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(guest);
    }
    if (entries[0].revents != 0) accept_guests();
  }
  drop_late_and_gone();
}

/// Sends the text to all who wait, until each has closed its end, which it does when it has read.
void PortHost::tell_all(const std::string& text) {
  for (Guest& guest : m_guests) {
    if (guest.stage == Stage::waiting) guest.out += guest.line->seal(text);
  }
  const Deadline until = m_timing.clock->after(linger_seconds);
  const auto waits = [](const Guest& guest) { return guest.stage == Stage::waiting; };
  const auto expected = [&] { return !m_last_words.empty() && !missing().empty(); };
  while (m_timing.clock->now() < until.at && (expected() || std::ranges::any_of(m_guests, waits))) turn();
}

void PortHost::refuse(const Error& error) {
  m_refusal = refusal_of(error);
  MeetingBoard board;
  board.run = m_all[0].nonce;
  board.world = m_meeting.world;
  board.refused = m_refusal;
  m_last_words = to_text(board);
  tell_all(m_last_words);
  throw_refusal(m_refusal);
}

std::vector<std::uint32_t> PortHost::missing() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < m_meeting.world; ++rank) {
    if (m_came[rank] == 0) ranks.push_back(rank);
  }
  return ranks;
}

Roster PortHost::run() {
  for (;;) {
    const std::vector<std::uint32_t> absent = missing();
    if (!m_refusal.empty()) refuse(UsageError(m_refusal.substr(m_refusal.find(": ") + 2)));
    if (absent.empty()) break;
    if (m_stop.stop_requested()) throw Interrupted();
    if (m_timing.clock->now() >= m_deadline.at) {
      const std::string dropped =
          m_dropped == 0
              ? ""
              : fmt::format("; {} connections that did not prove that they belong to the job were dropped: is --key-file the same for all?",
                            m_dropped);
      refuse(Error(fmt::format("{} to {}; see what they say, and whether their machines reach that address{}",
                               not_come(absent, m_meeting.world, m_meeting.timeout_seconds), printable(m_place), dropped)));
    }
    turn();
  }
  if (const std::string why = unreachable(m_all); !why.empty()) refuse(UsageError(why));
  Roster roster{{}, m_meeting.key ? *m_meeting.key : make_key()};
  MeetingBoard board;
  board.run = m_all[0].nonce;
  board.world = m_meeting.world;
  for (const Introduction& one : m_all) {
    roster.addresses.push_back(one.address);
    board.members.push_back({one.nonce, one.address});
  }
  if (!m_meeting.key) board.key = key_hex(roster.key.bytes());
  m_refusal = "closed";  // who comes now comes too late
  std::string text = to_text(board);
  tell_all(text);
  wipe(text);
  wipe(board.key);
  return roster;
}

}  // namespace

Roster meet_at_port_as_rank_zero(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  return PortHost(place, meeting, timing, stop).run();
}

}  // namespace dsanalyze
