#pragma once

#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "job.hpp"
#include "outbox.hpp"
#include "ring.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

class Loop;

/// One of the connections with another rank that has proved to be a member: samples are asked for and given both ways, and what ranks say to one
/// another goes over it. Whatever breaks it, or breaks the protocol, makes the rank dead.
/// Threads: any for ask(), say() and cancel_all(), followed by Loop::wake(); the loop's for the rest.
class Connection {
 public:
  /// `socket` does not block. `number`: among those with this peer.
  Connection(Loop& loop, FileDescriptor socket, std::uint32_t peer, std::uint32_t number);

  struct Asked {
    PeerRequest request;
    std::uint32_t place = 0;
    Nanoseconds at = 0;
    std::uint64_t number = 0;
    bool is_cancelled = false;  ///< is completed already, and its answer is not wanted
  };
  void ask(const PeerRequest& request, std::uint32_t place, Nanoseconds now);
  void say(FrameKind kind, std::uint64_t number, std::shared_ptr<const std::vector<std::byte>> bytes);
  void cancel_all();
  [[nodiscard]] std::uint32_t unanswered() const { return m_unanswered.load(std::memory_order_relaxed); }
  Loop& loop() { return *m_loop; }

  void start();
  /// Does what was asked for since.
  void work();
  /// Whether all that is owed comes, in time; says something when nothing was said for long.
  void look();
  /// Hangs up once all is said.
  void leave();
  /// At once.
  void close();

  std::atomic<bool> is_woken{false};

 private:
  enum class Body : std::uint8_t { none, reply, unwanted, message };
  void await_reading();
  void await_writing();
  void read_available();
  void take(std::size_t bytes);
  /// False when more bytes are needed.
  bool take_frame();
  bool take_requests(const FrameHead& head, std::span<const std::byte> bytes);
  bool take_answer(const FrameHead& head);
  bool begin_body(const FrameHead& head);
  void end_body();
  void write_all();
  void fill_outbox();
  /// It goes on without this rank. False, as break_off().
  bool take_end(const FrameHead& head);
  /// The other rank is dead, and all that it owes ends with `status`.
  void lose(Status status, Death death);
  /// The other end is closed.
  void hung_up(int error);
  /// A rank that may live after all is told that this one goes on without it.
  void tell_given_up();
  /// What it said makes no sense. False, for whoever would go on.
  bool break_off();
  void end(Status status);
  void fail_asked(Status status);
  void complete(const Asked& asked, Status status);
  void answer_came();
  void cancel_asked();
  [[nodiscard]] bool is_overdue(Nanoseconds now) const;

  Loop* m_loop;
  Job* m_job;
  std::uint32_t m_peer;
  std::uint32_t m_number;
  asio::ip::tcp::socket m_socket;
  bool m_is_open = false;
  bool m_is_leaving = false;
  bool m_has_said_all = false;  ///< and hung up for its part

  std::mutex m_mutex;
  Ring<Asked> m_asked;            ///< guarded by m_mutex: not sent yet
  std::uint64_t m_next = 0;       ///< guarded by m_mutex: the next request's number
  std::uint64_t m_cancelled = 0;  ///< guarded by m_mutex: requests before this one are cancelled
  Ring<Message> m_said;           ///< guarded by m_mutex
  bool m_is_lost = false;         ///< guarded by m_mutex: what is asked now is completed by work()
  std::atomic<std::uint32_t> m_unanswered{0};

  // Receiving: what belongs to no body lies in m_stage.
  std::array<std::byte, 4096> m_stage{};
  int m_enough = 1;  ///< bytes that the socket waits for before it wakes anybody
  std::size_t m_begin = 0;
  std::size_t m_end = 0;
  Body m_body = Body::none;
  FrameHead m_head;
  std::span<std::byte> m_rest;  ///< of the body, where it goes; of an unwanted one a part at a time
  std::size_t m_unwanted = 0;   ///< bytes of an unwanted body behind m_rest
  std::vector<std::byte> m_message;
  Ring<Asked> m_awaited;  ///< sent, in the order in which answers come
  std::vector<RequestEntry> m_entries;

  // Sending.
  Ring<ServedRequest> m_served;
  Outbox m_outbox;
  bool m_awaits_writing = false;

  // When something last happened.
  Nanoseconds m_heard = 0;
  Nanoseconds m_answered = 0;  ///< a byte of an answer, or the first one became due
  Nanoseconds m_due = 0;       ///< the first answer became due
  Nanoseconds m_sent = 0;      ///< a byte, or there began to be some to send
};

}  // namespace dsanalyze::transport
