#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "fake_rank.hpp"

namespace dsanalyze::test {

/// Stands between a rank that dials and one that accepts, and has no key: lets their handshake through, and does with their frames what the test
/// wants; or keeps everything, or hangs up on both.
class Meddler {
 public:
  enum class To : std::uint8_t { acceptor, dialer };
  /// What goes on in place of a frame: as many bytes of as many frames as it likes.
  using Change = std::function<std::vector<std::byte>(To to, std::vector<std::byte> frame)>;
  enum class Way : std::uint8_t {
    open,
    silent,       ///< nothing goes on, no rank hears of an end
    silent_half,  ///< to the acceptor; what the acceptor says goes on
    reset         ///< all that is there and all that comes is reset
  };

  Meddler(std::string target, Change change) : m_target(std::move(target)), m_change(std::move(change)) {
    const std::string& address = m_listener.address();
    m_port = address;
    m_listening = m_listener.take();
    m_thread = std::jthread([this] { accept(); });
  }
  ~Meddler() {
    m_is_over = true;
    m_thread.join();
    const std::scoped_lock lock(m_mutex);
    for (Pair& pair : m_pairs) pair.shut();
  }
  Meddler(const Meddler&) = delete;
  Meddler& operator=(const Meddler&) = delete;

  [[nodiscard]] const std::string& address() const { return m_port; }
  void set(Way way) {
    m_way = way;
    if (way != Way::reset) return;
    const std::scoped_lock lock(m_mutex);
    for (Pair& pair : m_pairs) pair.reset();
  }

 private:
  static constexpr std::size_t dialer_handshake_bytes = 116;
  static constexpr std::size_t acceptor_handshake_bytes = 96;

  struct Pair {
    FileDescriptor dialer;
    FileDescriptor acceptor;
    std::jthread to_acceptor;
    std::jthread to_dialer;
    void shut() const {
      ::shutdown(dialer.get(), SHUT_RDWR);
      ::shutdown(acceptor.get(), SHUT_RDWR);
    }
    void reset() const {
      const linger at_once{1, 0};
      for (const int socket : {dialer.get(), acceptor.get()}) ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      shut();
    }
  };

  void accept() {
    while (!m_is_over) {
      pollfd ready{m_listening.get(), POLLIN, 0};
      if (::poll(&ready, 1, 10) <= 0) continue;
      FileDescriptor dialer(::accept4(m_listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!dialer.valid()) continue;
      if (m_way == Way::reset) {
        const linger at_once{1, 0};
        ::setsockopt(dialer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        continue;
      }
      FileDescriptor acceptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const std::size_t colon = m_target.rfind(':');
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(m_target.substr(colon + 1))));
      ::inet_pton(AF_INET, m_target.substr(0, colon).c_str(), &to.sin_addr);
      if (::connect(acceptor.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) continue;
      for (const int socket : {dialer.get(), acceptor.get()}) {
        const int one = 1;
        ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      }
      const std::scoped_lock lock(m_mutex);
      Pair& pair = m_pairs.emplace_back();
      pair.dialer = std::move(dialer);
      pair.acceptor = std::move(acceptor);
      pair.to_acceptor = std::jthread([this, &pair] { carry(pair, pair.dialer.get(), pair.acceptor.get(), To::acceptor); });
      pair.to_dialer = std::jthread([this, &pair] { carry(pair, pair.acceptor.get(), pair.dialer.get(), To::dialer); });
    }
  }

  static bool read_all(int socket, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), 0);
      if (got <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }
  static bool send_all(int socket, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  [[nodiscard]] bool goes_on(To to) const {
    const Way way = m_way;
    return way == Way::open || (way == Way::silent_half && to == To::dialer);
  }

  void carry(const Pair& pair, int from, int onto, To to) {
    std::size_t handshake = to == To::acceptor ? dialer_handshake_bytes : acceptor_handshake_bytes;
    bool is_open = true;
    while (is_open && handshake > 0) {
      std::array<std::byte, 128> bytes;
      const ssize_t got = ::recv(from, bytes.data(), std::min(bytes.size(), handshake), 0);
      is_open = got > 0;
      if (!is_open) break;
      handshake -= static_cast<std::size_t>(got);
      if (goes_on(to)) is_open = send_all(onto, std::span(bytes).first(static_cast<std::size_t>(got)));
    }
    while (is_open) {
      std::vector<std::byte> frame(transport::head_bytes);
      is_open = read_all(from, frame);
      if (!is_open) break;
      std::uint32_t length = 0;
      std::memcpy(&length, frame.data() + sizeof(std::uint32_t), sizeof length);
      frame.resize(frame.size() + length);
      is_open = read_all(from, std::span(frame).subspan(transport::head_bytes));
      if (is_open && goes_on(to)) is_open = send_all(onto, m_change(to, std::move(frame)));
    }
    // Who is cut off hears of no end.
    if (goes_on(to) || m_is_over) pair.shut();
  }

  Listener m_listener;
  std::string m_port;
  FileDescriptor m_listening;
  std::string m_target;
  Change m_change;
  std::atomic<Way> m_way{Way::open};
  std::atomic<bool> m_is_over{false};
  std::mutex m_mutex;
  std::list<Pair> m_pairs;  ///< guarded by m_mutex; stay until the end
  std::jthread m_thread;
};

/// Ranks of one job in one process, with a meddler on each way between two of them.
class MeddledJob {
 public:
  MeddledJob(std::uint32_t world, double peer_deadline_seconds, FrameCheck check, const Meddler::Change& change)
      : m_meddlers(world), m_job(world, [&](RankFacts& facts, std::vector<std::string>& addresses) {
          facts.peer_deadline_seconds = peer_deadline_seconds;
          facts.frame_check = check;
          for (std::uint32_t lower = 0; lower < facts.rank; ++lower) {
            m_meddlers[facts.rank].push_back(std::make_unique<Meddler>(addresses[lower], change));
            addresses[lower] = m_meddlers[facts.rank].back()->address();
          }
        }) {}

  Ranks& operator[](std::uint32_t rank) { return m_job[rank]; }
  Meddler& between(std::uint32_t one, std::uint32_t other) { return *m_meddlers[std::max(one, other)][std::min(one, other)]; }
  [[nodiscard]] std::uint32_t world() const { return m_job.world(); }
  template <typename Body>
  void each(const Body& body) {
    m_job.each(body);
  }

 private:
  std::vector<std::vector<std::unique_ptr<Meddler>>> m_meddlers;  ///< by the rank that dials, then by the one it dials
  JobOfRanks m_job;                                               ///< leaves before the meddlers end
};

}  // namespace dsanalyze::test
