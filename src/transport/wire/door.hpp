#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "handshake.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze::transport {

/// Where connections begin: lets in who proves to be a member, and calls at the lower ranks' doors until it is let in, again when a connection broke.
/// A thread of its own, so that a caller, however often it comes, keeps none of the others waiting. Who has not proved to be a member within 2 s and
/// 116 bytes is gone. Of more than 128 that have not, one of the address that most of them come from goes, whichever: however many come, a member
/// that tries again gets in soon, and one from another address at once. Threads: any.
class Door {
 public:
  /// A member's claim to a connection.
  struct Claim {
    std::uint32_t rank = 0;
    std::uint32_t connection = 0;
    bool opens_again = false;  ///< it had that connection before, and its socket broke
  };
  /// What the door asks and tells, from its own thread.
  struct Calls {
    /// Whether a member may come in by this claim. `none`: it may.
    std::function<Refusal(const Claim& claim)> admit;
    /// A member is in. Its socket does not block.
    std::function<void(FileDescriptor socket, const FrameKeys& keys, const Claim& claim)> enter;
    /// Why the job goes on without that rank; none: it does not.
    std::function<Death(std::uint32_t rank)> death;
    /// The others go on without this rank.
    std::function<void(Death reason)> given_up;
    /// Whether a connection that broke is still to be opened again.
    std::function<bool(std::uint32_t rank, std::uint32_t connection)> is_missed;
  };
  /// `peers`: where all ranks are; used for those below. Closed at first.
  Door(FileDescriptor listening, const RankFacts& facts, std::vector<asio::ip::tcp::endpoint> peers, const Clock& clock, Calls calls);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// From now on ranks come in, once.
  void open();
  /// Nothing comes in any more, and nothing is called.
  void close();

  [[nodiscard]] std::uint64_t refused(Refusal refusal) const { return m_refused[static_cast<std::size_t>(refusal)].load(std::memory_order_relaxed); }
  /// What came last of calling at that rank, in words; empty when nothing did.
  [[nodiscard]] std::string trouble(std::uint32_t rank) const;
  /// A connection broke: a lower rank is called for it; a higher one is to call.
  void open_again(std::uint32_t rank, std::uint32_t connection);
  /// A rank has the key and other terms: waiting does not help.
  [[nodiscard]] bool is_hopeless() const { return m_is_hopeless.load(); }

 private:
  struct Caller {
    Caller(asio::ip::tcp::socket given_socket, Handshake given_handshake, Nanoseconds now)
        : socket(std::move(given_socket)), handshake(std::move(given_handshake)), began(now) {}
    asio::ip::tcp::socket socket;
    Handshake handshake;
    Nanoseconds began;
    asio::ip::address from;
    std::size_t call = SIZE_MAX;  ///< which of m_calls; SIZE_MAX: it came by itself
    bool is_answered = false;     ///< of a call: connected, or refused
    bool is_gone = false;         ///< what still comes of its socket is of no interest
    std::list<std::shared_ptr<Caller>>::iterator place;
  };
  using CallerPointer = std::shared_ptr<Caller>;
  /// A connection that this rank has to make.
  struct Call {
    Claim claim;
    enum class Stage : std::uint8_t { waiting, calling, over } stage = Stage::waiting;
    Nanoseconds again_at = 0;
  };

  CallerPointer add(asio::ip::tcp::socket socket, Handshake handshake);
  void remove(const CallerPointer& caller);
  CallerPointer one_of_the_most_crowded();
  void note(std::uint32_t rank, const std::string& trouble);
  void accept_next();
  void receive(asio::ip::tcp::socket socket);
  void make_calls();
  void call(std::size_t number);
  void await(const CallerPointer& caller);
  void read(const CallerPointer& caller);
  bool send_output(Caller& caller);
  void let_in(const CallerPointer& caller);
  void refuse(const CallerPointer& caller, Refusal refusal, const std::string& trouble);
  void look_around();
  void look_later();

  OwnSide m_own;
  std::vector<asio::ip::tcp::endpoint> m_peers;
  const Clock* m_clock;
  Calls m_hooks;
  asio::io_context m_context{1};
  asio::ip::tcp::acceptor m_acceptor;
  asio::steady_timer m_timer;
  asio::steady_timer m_pause;
  Nanoseconds m_longest_redial;
  std::list<CallerPointer> m_callers;  ///< the oldest first
  RandomStream m_random{std::random_device{}()};
  std::size_t m_strangers = 0;  ///< of m_callers, those that came by themselves
  std::vector<Call> m_calls;
  std::size_t m_calling = 0;
  std::array<std::atomic<std::uint64_t>, refusal_kinds> m_refused{};
  std::atomic<bool> m_is_hopeless{false};
  mutable std::mutex m_mutex;
  std::vector<std::string> m_troubles;  ///< guarded by m_mutex; one a rank
  std::thread m_thread;
};

/// "10.0.0.2:40123", "[::1]:40123". Throws UsageError, which quotes the text, for anything else; names of hosts are not looked up.
asio::ip::tcp::endpoint parse_endpoint(std::string_view text);
/// Programs that are started do not keep it open: others see at once when this process ends.
void close_on_exec(int socket);
std::string format_endpoint(const asio::ip::tcp::endpoint& endpoint);

}  // namespace dsanalyze::transport
