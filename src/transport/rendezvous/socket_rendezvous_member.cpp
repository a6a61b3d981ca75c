#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "core/partition/peers.hpp"
#include "file_rendezvous.hpp"
#include "introduction.hpp"
#include "meeting_place.hpp"
#include "sealed_line.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr int poll_milliseconds_of_member = 20;
constexpr double connect_seconds_of_member = 2;
constexpr double retry_seconds = 0.1;
constexpr int most_closed_after_proof = 3;
constexpr std::size_t most_frame = 16384;
constexpr std::size_t most_roster = std::size_t{most_ranks} * 320 + 8192;

/// Any other rank of a meeting at a port.
class PortMember {
 public:
  PortMember(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop)
      : m_place(place),
        m_meeting(meeting),
        m_timing(timing),
        m_stop(stop),
        m_deadline(timing.clock->after(meeting.timeout_seconds)),
        m_keyed(meeting.key ? Keyed::yes : Keyed::no),
        m_own(introduce(meeting)),
        m_addresses(resolve_place(place, m_keyed)) {}
  Roster run();

 private:
  [[nodiscard]] std::optional<Roster> attempt(const SocketAddress& address);
  [[nodiscard]] bool connect(const SocketAddress& address, Deadline deadline);
  /// Waits until the socket is ready; false at the deadline.
  [[nodiscard]] bool ready(short events, Deadline deadline);
  [[nodiscard]] bool send(std::string_view bytes, Deadline deadline);
  /// Appends what comes to m_in; false at the deadline, at the end or at an error.
  [[nodiscard]] bool receive(Deadline deadline);
  [[nodiscard]] std::optional<SealedLine> prove(Deadline deadline);
  [[nodiscard]] Roster read_roster(std::string_view text) const;
  [[nodiscard]] Deadline sooner(double seconds) const { return {std::min(m_deadline.at, m_timing.clock->after(seconds).at)}; }

  std::string_view m_place;
  const Meeting& m_meeting;
  Timing m_timing;
  std::stop_token m_stop;
  Deadline m_deadline;
  Keyed m_keyed;
  Introduction m_own;
  std::vector<SocketAddress> m_addresses;
  FileDescriptor m_socket;
  std::string m_in;
  std::string m_why = "nothing was tried";  ///< the last attempt failed
  int m_closed_after_proof = 0;
};

bool PortMember::ready(short events, Deadline deadline) {
  for (;;) {
    if (m_stop.stop_requested()) throw Interrupted();
    pollfd entry{m_socket.get(), events, 0};
    if (::poll(&entry, 1, poll_milliseconds_of_member) > 0) return true;
    if (m_timing.clock->now() >= deadline.at) return false;
  }
}

bool PortMember::connect(const SocketAddress& address, Deadline deadline) {
  m_in.clear();
  m_socket = FileDescriptor(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int error = m_socket.valid() ? 0 : errno;
  if (error == 0 && ::connect(m_socket.get(), address.get(), address.size) != 0) error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    error = ETIMEDOUT;
    if (ready(POLLOUT, deadline)) ::getsockopt(m_socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) m_why = error == ECONNREFUSED ? "no process listens there" : describe_errno(error);
  return error == 0;
}

bool PortMember::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (!ready(POLLOUT, deadline)) return false;
    const ssize_t written = ::send(m_socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool PortMember::receive(Deadline deadline) {
  if (!ready(POLLIN, deadline)) return false;
  char bytes[16384];
  const ssize_t got = ::recv(m_socket.get(), bytes, sizeof bytes, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  m_in.append(bytes, static_cast<std::size_t>(got));
  return got > 0;
}

std::optional<SealedLine> PortMember::prove(Deadline deadline) {
  m_why = "who listens there says nothing that a rank 0 says";
  while (m_in.size() < greeting_bytes) {
    if (!receive(deadline)) return std::nullopt;
  }
  const auto theirs = parse_greeting(std::string_view(m_in).substr(0, greeting_bytes));
  if (!theirs) return std::nullopt;
  m_in.erase(0, greeting_bytes);
  if (theirs->protocol != rank_protocol) {
    throw UsageError(
        fmt::format("rank 0 at {} runs another version of dsanalyze (it speaks protocol {}, this rank {}); use one program for all ranks",
                    printable(m_place), theirs->protocol, rank_protocol));
  }
  if (theirs->keyed != m_keyed) {
    const bool ours = m_keyed == Keyed::yes;
    throw UsageError(fmt::format("{} was given a key and {} was not; pass --key-file with the same key to all ranks", ours ? "this rank" : "rank 0",
                                 ours ? "rank 0" : "this rank"));
  }
  if (m_keyed == Keyed::no && !other_end_is_this_users(m_socket.get())) {
    throw UsageError(
        fmt::format("who listens at {} is not a process of this user (or the system does not say); make a key and pass --key-file to all ranks",
                    printable(m_place)));
  }
  const Greeting mine = new_greeting(m_keyed);
  SealedLine line(End::dials, key_or_zeros(m_meeting.key), *theirs, mine);
  m_why = "rank 0 closed the connection";
  if (!send(to_bytes(mine) + line.own_proof(), deadline)) return std::nullopt;
  while (m_in.size() < proof_bytes) {
    if (receive(deadline)) continue;
    if (++m_closed_after_proof >= most_closed_after_proof) {
      throw UsageError(
          fmt::format("rank 0 at {} does not accept this rank's key; pass --key-file with the same key to all ranks", printable(m_place)));
    }
    return std::nullopt;
  }
  if (!line.is_proof_of_other(std::string_view(m_in).substr(0, proof_bytes))) {
    throw UsageError(
        fmt::format("who listens at {} does not know the job's key; pass --key-file with the same key to all ranks", printable(m_place)));
  }
  m_in.erase(0, proof_bytes);
  m_closed_after_proof = 0;
  return line;
}

Roster PortMember::read_roster(std::string_view text) const {
  auto board = parse_board(text);
  if (board && !board->refused.empty()) throw_refusal(board->refused);
  if (!board || board->members.size() != m_meeting.world || board->members[m_meeting.rank].nonce != m_own.nonce || (!m_meeting.key && !board->key)) {
    throw Error(fmt::format("rank 0 at {} sent something that is no list of the {} ranks", printable(m_place), m_meeting.world));
  }
  Roster roster{{}, m_meeting.key ? *m_meeting.key : *board->key};
  for (MeetingBoard::Member& member : board->members) roster.addresses.push_back(std::move(member.address));
  return roster;
}

std::optional<Roster> PortMember::attempt(const SocketAddress& address) {
  if (!connect(address, sooner(connect_seconds_of_member))) return std::nullopt;
  auto line = prove(sooner(2 * prove_seconds));
  if (!line) return std::nullopt;
  m_why = "rank 0 closed the connection before all ranks had come";
  if (!send(line->seal(to_text(m_own)), m_deadline)) return std::nullopt;
  SecretText text;
  std::optional<SharedTextKey> list;
  for (;;) {
    const auto opened = list ? SealedLine::Opened::more : line->open(m_in, most_frame, text);
    if (opened == SealedLine::Opened::broken) return std::nullopt;
    if (opened == SealedLine::Opened::yes) {
      list = parse_shared_text_key(text.view(), most_roster);
      if (!list) return read_roster(text.view());  // a refusal
    }
    if (list && m_in.size() >= list->sealed_bytes) {
      if (!open_shared_text(*list, std::string_view(m_in).substr(0, list->sealed_bytes), text)) return std::nullopt;
      return read_roster(text.view());
    }
    if (!receive({m_deadline.at + to_nanoseconds(grace_seconds)})) {
      if (m_timing.clock->now() >= m_deadline.at) m_why = "rank 0 is there, and waits for other ranks";
      return std::nullopt;
    }
  }
}

Roster PortMember::run() {
  for (;;) {
    for (const SocketAddress& address : m_addresses) {
      auto roster = attempt(address);
      m_socket.reset();
      if (roster) return *roster;
    }
    if (m_timing.clock->now() >= m_deadline.at) {
      throw Error(fmt::format(
          "rank {} of {} did not meet the others at {} within {:g} s: {}; see what rank 0 says, and whether this machine reaches that address",
          m_meeting.rank, m_meeting.world, printable(m_place), m_meeting.timeout_seconds, m_why));
    }
    if (m_stop.stop_requested()) throw Interrupted();
    m_timing.waiter->sleep_until(m_timing.clock->now() + to_nanoseconds(retry_seconds));
  }
}

}  // namespace

Roster meet_at_port_as_member(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  return PortMember(place, meeting, timing, stop).run();
}

}  // namespace dsanalyze
