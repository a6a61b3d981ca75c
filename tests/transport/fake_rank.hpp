#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "ranks_fixture.hpp"
#include "transport/wire/handshake.hpp"
#include "transport/wire/wire.hpp"

namespace dsanalyze::test {

/// A plain socket to an address as Listener gives it ("127.0.0.1:PORT"). Waits are bounded.
class PlainSocket {
 public:
  explicit PlainSocket(const std::string& address, int receive_buffer = 0) : m_socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int one = 1;
    ::setsockopt(m_socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    const timeval patience{static_cast<time_t>(patience_seconds), 0};
    ::setsockopt(m_socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(m_socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0) ::setsockopt(m_socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const std::size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    m_is_connected = ::connect(m_socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  explicit PlainSocket(FileDescriptor socket) : m_socket(std::move(socket)), m_is_connected(true) {}

  [[nodiscard]] bool is_connected() const { return m_is_connected; }
  bool send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(m_socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  /// Bytes that came, at most so many; empty when the other end hung up.
  std::vector<std::byte> receive(std::size_t most) {
    std::vector<std::byte> bytes(most);
    const ssize_t got = ::recv(m_socket.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  /// All of them, or fewer when the other end hung up.
  std::vector<std::byte> receive_all(std::size_t count) {
    std::vector<std::byte> bytes;
    while (bytes.size() < count) {
      const std::vector<std::byte> more = receive(count - bytes.size());
      if (more.empty()) break;
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    return bytes;
  }
  /// Reads until the other end hangs up; how many bytes came.
  std::size_t drain() {
    std::size_t count = 0;
    for (std::vector<std::byte> bytes = receive(4096); !bytes.empty(); bytes = receive(4096)) count += bytes.size();
    return count;
  }
  /// Once the other side has read all and hung up: who closes at once takes back what was not read.
  void close_when_read() {
    ::shutdown(m_socket.get(), SHUT_WR);
    drain();
    close();
  }
  void close() { m_socket.reset(); }

 private:
  FileDescriptor m_socket;
  bool m_is_connected = false;
};

/// A rank that has the key and says what the test wants: it calls rank 0 as rank 1 of 2, with one connection.
class FakeRank {
 public:
  FakeRank(const RankFacts& facts, const std::string& address, int receive_buffer = 0, bool opens_again = false)
      : m_own(transport::own_side(facts)), m_socket(address, receive_buffer) {
    auto shake = transport::Handshake::to_dial(m_own, 0, opens_again ? transport::opened_again : 0, transport::random_nonce());
    m_socket.send(shake.output());
    while (shake.wanted() > 0) {
      const std::vector<std::byte> bytes = m_socket.receive(shake.wanted());
      if (bytes.empty()) break;
      shake.take(bytes);
      m_socket.send(shake.output());
    }
    m_is_in = shake.stage() == transport::Handshake::Stage::done;
    m_given_up = shake.given_up();
    if (m_is_in) m_keys = shake.frame_keys();
  }

  [[nodiscard]] bool is_in() const { return m_is_in; }
  [[nodiscard]] transport::Death given_up() const { return m_given_up; }
  PlainSocket& socket() { return m_socket; }
  /// Messages that the other rank is told have come.
  void acknowledge(std::uint64_t heard) { m_heard = heard; }
  /// A frame as it is sent. Counts.
  std::vector<std::byte> frame(transport::FrameHead head, std::span<const std::byte> bytes) {
    head.length = static_cast<std::uint32_t>(bytes.size());
    head.heard = m_heard;
    if (transport::is_message(head.kind) && head.said == 0) head.said = ++m_said;
    return summed(head, bytes);
  }
  /// The same with the head's fields as they are.
  std::vector<std::byte> summed(const transport::FrameHead& head, std::span<const std::byte> bytes) {
    const transport::HeadBytes written = transport::write_head(head);
    const transport::FrameSum sum = m_keys.sending.next(written, bytes);
    std::vector<std::byte> whole(written.begin(), written.end());
    whole.insert(whole.end(), sum.begin(), sum.end());
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    return whole;
  }
  bool say(const transport::FrameHead& head, std::span<const std::byte> bytes) { return m_socket.send(frame(head, bytes)); }
  /// The next frame that is no heartbeat, and does not say which process the other rank is; false when the other end hung up.
  bool hear(transport::FrameHead& head, std::vector<std::byte>& bytes) {
    do {
      const std::vector<std::byte> read = m_socket.receive_all(transport::head_bytes);
      if (read.size() < transport::head_bytes) return false;
      const std::span<const std::byte> summed(read);
      const auto parsed = transport::parse_head(summed.first<transport::bare_head_bytes>());
      if (!parsed) return false;
      head = *parsed;
      bytes = m_socket.receive_all(head.length);
      if (bytes.size() != head.length || !m_keys.receiving.matches(summed.first<transport::bare_head_bytes>(), bytes, summed.last(16))) return false;
    } while (head.kind == transport::FrameKind::heartbeat || head.kind == transport::FrameKind::process);
    return true;
  }
  /// Asked for so many samples, in one frame or more: the number of the first and what they are.
  bool hear_requests(std::size_t count, std::uint64_t& number, std::vector<transport::RequestEntry>& entries) {
    entries.clear();
    while (entries.size() < count) {
      transport::FrameHead head;
      std::vector<std::byte> bytes;
      if (!hear(head, bytes) || head.kind != transport::FrameKind::request) return false;
      if (entries.empty()) number = head.number;
      if (head.number != number + entries.size()) return false;
      transport::parse_entries(bytes, entries);
    }
    return true;
  }

 private:
  transport::OwnSide m_own;
  PlainSocket m_socket;
  transport::FrameKeys m_keys;
  transport::Death m_given_up = transport::Death::none;
  std::uint64_t m_said = 0;
  std::uint64_t m_heard = 0;
  bool m_is_in = false;
};

/// A real rank 0 and a fake rank 1.
struct PairWithFake {
  explicit PairWithFake(double peer_deadline_seconds = patience_seconds, Timing timing = system_timing(), int receive_buffer = 0) {
    RankFacts facts = facts_of(0, 2);
    facts.connections_per_peer = 1;
    facts.peer_deadline_seconds = peer_deadline_seconds;
    Listener listener;
    address = listener.address();
    auto joining = std::async(std::launch::async, [&listener, facts, timing, this] {
      return join_ranks(std::move(listener), facts, {address, address}, timing);
    });
    facts.rank = 1;
    fake = std::make_unique<FakeRank>(facts, address, receive_buffer);
    fake_facts = facts;
    real = joining.get();
  }
  /// Says that it leaves, where it still can: the real rank does not wait for it then.
  ~PairWithFake() { fake->say({transport::FrameKind::leaving, 0, 0, 0}, {}); }
  PairWithFake(const PairWithFake&) = delete;
  PairWithFake& operator=(const PairWithFake&) = delete;

  /// Until the real rank serves its connection: a clock that is moved before that moves nothing of it. Takes the fake rank's first message.
  bool is_served() { return fake->say({transport::FrameKind::gather, 0, 1, 0}, {}) && real->collective().barrier(in_good_time()).ok(); }
  /// The fake rank comes again, by another connection.
  void reconnect() { fake = std::make_unique<FakeRank>(fake_facts, address, 0, true); }
  std::string address;
  RankFacts fake_facts;
  std::unique_ptr<Ranks> real;
  std::unique_ptr<FakeRank> fake;  ///< ends first: a rank that leaves gives the others time to hang up
};

}  // namespace dsanalyze::test
