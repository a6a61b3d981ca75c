#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "file_rendezvous.hpp"
#include "introduction.hpp"
#include "meeting_place.hpp"
#include "sealed_line.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr int poll_milliseconds = 20;
constexpr int most_waiting = 1024;
constexpr std::size_t most_at_once = 4096;  // bytes
constexpr int most_accepted_at_once = 64;   // connections, before others and the deadline have their turn

enum class Stage : std::uint8_t { proving, introducing, waiting, gone };

/// Whose connection it is, as far as can be seen before anything is proved.
struct Source {
  std::string name;
  bool is_ours = false;  ///< a process of this user, on this machine
};

struct Guest {
  FileDescriptor socket;
  Greeting greeting;
  Deadline deadline;
  Stage stage = Stage::proving;
  Source source;
  std::string in;
  std::string out;
  std::string_view rest;  ///< of the text that all are sent, after `out`
  std::optional<SealedLine> line;
  std::uint32_t rank = 0;

  [[nodiscard]] bool has_more() const { return !out.empty() || !rest.empty(); }
};

/// Closes at once, without the farewell that leaves a row in the kernel's table for a minute: strangers come by the thousand.
void close_on_stranger(FileDescriptor& socket) {
  const linger at_once{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket.reset();
}

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
  [[nodiscard]] std::vector<FileDescriptor> accept_some();
  void greet(FileDescriptor socket, Source source);
  /// Makes room: of those that have proved nothing one goes. False when there is none.
  bool evict_stranger();
  void read_from(Guest& guest);
  void take_proof(Guest& guest);
  void take_introduction(Guest& guest);
  void write_to(Guest& guest);
  void drop(Guest& guest);
  void drop_late_and_gone();
  void linger();
  [[noreturn]] void refuse(const Error& error);
  [[nodiscard]] std::vector<std::uint32_t> missing() const;

  std::string_view m_place;
  const Meeting& m_meeting;
  Timing m_timing;
  std::stop_token m_stop;
  Deadline m_deadline;
  Keyed m_keyed;
  FileDescriptor m_listener;
  int m_family = AF_INET;
  std::uint16_t m_port = 0;
  Nanoseconds m_accepts_again = 0;
  std::list<Guest> m_guests;
  std::vector<Introduction> m_all;
  std::vector<char> m_came;
  std::string m_refusal;
  SecretText m_last_words;  ///< for those who come after a refusal
  std::optional<SharedText> m_list;
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
      m_family = address.family;
      m_port = address.port();
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

std::vector<FileDescriptor> PortHost::accept_some() {
  std::vector<FileDescriptor> came;
  for (int attempt = 0; attempt < most_accepted_at_once; ++attempt) {
    FileDescriptor socket(::accept4(m_listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      came.push_back(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The next turn takes who waits, or a later one: who is there may go meanwhile.
      if (!evict_stranger()) m_accepts_again = m_timing.clock->now() + poll_milliseconds * (nanoseconds_per_second / 1000);
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  return came;
}

void PortHost::accept_guests() {
  std::vector<FileDescriptor> came = accept_some();
  if (came.empty()) return;
  const SocketTable table(m_family, m_port);  // read once for all of them
  for (FileDescriptor& socket : came) {
    const auto user = table.user_of_other_end(socket.get());
    const bool is_ours = user == ::geteuid();
    if (m_keyed == Keyed::no && !is_ours) {
      ++m_dropped;
      close_on_stranger(socket);
    } else {
      Source source{user ? fmt::format("user {}", *user) : source_of(socket.get()), is_ours};
      greet(std::move(socket), std::move(source));
    }
  }
}

void PortHost::greet(FileDescriptor socket, Source source) {
  const auto proving = static_cast<std::size_t>(std::ranges::count(m_guests, Stage::proving, &Guest::stage));
  if (proving >= most_strangers + m_meeting.world) evict_stranger();
  Guest guest{std::move(socket), new_greeting(m_keyed), m_timing.clock->after(prove_seconds), Stage::proving, std::move(source), "", "", {}, {}, 0};
  guest.out = to_bytes(guest.greeting);
  m_guests.push_back(std::move(guest));
  write_to(m_guests.back());  // so that its proof may be here with the next turn
}

/// Of the source that has most strangers the oldest, so that coming often gains nothing; this user's own only where there are no others.
bool PortHost::evict_stranger() {
  std::map<std::string_view, std::size_t> counts;
  for (const Guest& guest : m_guests) {
    if (guest.stage == Stage::proving) ++counts[guest.source.name];
  }
  const auto weight = [&](const Guest& guest) -> std::size_t {
    if (guest.stage != Stage::proving) return 0;
    return guest.source.is_ours ? 1 : 1 + counts[guest.source.name];
  };
  const auto heaviest = std::ranges::max_element(m_guests, {}, weight);
  if (heaviest == m_guests.end() || heaviest->stage != Stage::proving) return false;
  close_on_stranger(heaviest->socket);
  m_guests.erase(heaviest);
  ++m_dropped;
  return true;
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
  guest.line.emplace(End::listens, key_or_zeros(m_meeting.key), guest.greeting, *greeting);
  if (!guest.line->is_proof_of_other(std::string_view(guest.in).substr(greeting_bytes, proof_bytes))) return drop(guest);
  guest.in.erase(0, bytes_before_proof);
  guest.out += guest.line->own_proof();
  guest.stage = Stage::introducing;
  guest.deadline = m_timing.clock->after(prove_seconds);
}

void PortHost::take_introduction(Guest& guest) {
  SecretText text;
  switch (guest.line->open(guest.in, most_introduction, text)) {
    case SealedLine::Opened::more:
      return;
    case SealedLine::Opened::broken:
      return drop(guest);
    case SealedLine::Opened::yes:
      break;
  }
  auto who = parse_introduction(text.view());
  if (!who) return drop(guest);
  guest.stage = Stage::waiting;
  guest.deadline = {INT64_MAX};
  guest.rank = std::min(who->rank, m_meeting.world - 1);
  if (!m_last_words.view().empty()) guest.out += guest.line->seal(m_last_words.view());
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
  const bool is_own = !guest.out.empty();
  const std::string_view bytes = is_own ? guest.out : guest.rest;
  const ssize_t written = ::send(guest.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (written < 0 && errno != EAGAIN && errno != EINTR) return drop(guest);
  if (written <= 0) return;
  if (is_own) {
    guest.out.erase(0, static_cast<std::size_t>(written));
  } else {
    guest.rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void PortHost::drop_late_and_gone() {
  const Nanoseconds now = m_timing.clock->now();
  for (Guest& guest : m_guests) {
    if (guest.stage != Stage::gone && now >= guest.deadline.at) drop(guest);
  }
  std::erase_if(m_guests, [](const Guest& guest) { return guest.stage == Stage::gone; });
}

void PortHost::turn() {
  const bool accepts = m_timing.clock->now() >= m_accepts_again;
  std::vector<pollfd> entries{{m_listener.get(), static_cast<short>(accepts ? POLLIN : 0), 0}};
  for (const Guest& guest : m_guests) {
    entries.push_back({guest.socket.get(), static_cast<short>(guest.has_more() ? POLLIN | POLLOUT : POLLIN), 0});
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

/// Goes on until each who waits has closed its end, which it does when it has read.
void PortHost::linger() {
  const Deadline until = m_timing.clock->after(linger_seconds);
  const auto waits = [](const Guest& guest) { return guest.stage == Stage::waiting; };
  const auto expected = [&] { return !m_last_words.view().empty() && !missing().empty(); };
  while (m_timing.clock->now() < until.at && !m_stop.stop_requested() && (expected() || std::ranges::any_of(m_guests, waits))) turn();
}

void PortHost::refuse(const Error& error) {
  m_refusal = refusal_of(error);
  MeetingBoard board;
  board.run = m_all[0].nonce;
  board.world = m_meeting.world;
  board.refused = m_refusal;
  m_last_words = to_text(board);
  for (Guest& guest : m_guests) {
    if (guest.stage == Stage::waiting) guest.out += guest.line->seal(m_last_words.view());
  }
  linger();
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
  if (!m_meeting.key) board.key = roster.key;
  m_refusal = "closed";  // who comes now comes too late
  m_list.emplace(to_text(board).view());
  const SecretText key_of_list = to_text(m_list->key());
  for (Guest& guest : m_guests) {
    if (guest.stage != Stage::waiting) continue;
    guest.out += guest.line->seal(key_of_list.view());
    guest.rest = m_list->sealed();
  }
  linger();
  if (m_stop.stop_requested()) throw Interrupted();
  return roster;
}

}  // namespace

Roster meet_at_port_as_rank_zero(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  return PortHost(place, meeting, timing, stop).run();
}

}  // namespace dsanalyze
