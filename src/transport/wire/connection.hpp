#pragma once

#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "handshake.hpp"
#include "outbox.hpp"
#include "transport/team/job.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

class Loop;

/// One of the connections with another rank that has proved to be a member: samples are asked for and given both ways, and what ranks say to one
/// another goes over it. Its socket may break and be replaced: what was under way then is asked for and said again, so that nothing is lost and
/// nothing comes twice. A rank whose connection stays broken for the peer deadline is lost, as one that says nothing.
/// Threads: any for ask(), say(), cancel_all(), has_heard() and is_broken(), the first three followed by Loop::wake(); the loop's for the rest.
class Connection {
 public:
  /// `socket` does not block. `number`: among those with this peer.
  Connection(Loop& loop, FileDescriptor socket, const FrameKeys& keys, std::uint32_t peer, std::uint32_t number);

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

  /// Whether a frame has come over it: the other rank knows that it is connected.
  [[nodiscard]] bool has_heard() const { return m_has_heard.load(std::memory_order_acquire); }

  /// Whether its socket broke and no other has come yet.
  [[nodiscard]] bool is_broken() const { return m_is_broken.load(std::memory_order_acquire); }

  void start();
  /// Goes on over another socket, whatever has become of the one it had.
  void replace_socket(FileDescriptor socket, const FrameKeys& keys);
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
  void serve_socket();
  void await_reading();
  void await_writing();
  void read_available();
  /// Of a body that has begun the rest will come, and is of no use before: the socket wakes no thread for parts of it.
  void tune_wakes();
  void take(std::size_t bytes);
  /// False when more bytes are needed.
  bool take_frame();
  bool take_small_frame(const FrameHead& head, std::span<const std::byte> bytes);
  bool take_requests(const FrameHead& head, std::span<const std::byte> bytes);
  bool take_answer(const FrameHead& head);
  bool begin_body(const FrameHead& head);
  void end_body();
  /// What a frame that is whole and right says beside its body. False when it makes no sense.
  bool take_head(const FrameHead& head);
  /// Whether a message is the next one; one that has come already is dropped.
  bool is_next_message(const FrameHead& head);
  Asked pop_awaited();
  void write_all();
  void fill_outbox();
  void add_requests();
  void add_messages();
  /// It goes on without this rank. False, as break_off().
  bool take_end(const FrameHead& head);
  /// The socket is of no use any more. False, so that the caller does not go on.
  bool broke();
  /// What came is not what was sent, or not in its turn: as broke().
  bool is_corrupt();
  void drop_socket();
  /// The other rank is lost, and all that it owes ends with `status`.
  void lose(Status status, Death death);
  /// A rank that may live after all is told that this one goes on without it, and all are told when this one does not go on.
  void say_last_words();
  /// What it said makes no sense. False, so that the caller does not go on.
  bool break_off();
  void end(Status status);
  void fail_asked(Status status);
  void complete(const Asked& asked, Status status);
  void answer_came();
  void cancel_asked();
  [[nodiscard]] bool is_overdue(Nanoseconds now) const;
  /// Whether a frame has begun that does not become whole: its length may have been changed on its way, and what follows is then taken for its body.
  /// Found in half of the time after which the other rank is lost, so that there is time to open the connection again.
  [[nodiscard]] bool is_stuck(Nanoseconds now) const;
  [[nodiscard]] Nanoseconds time_to_come(std::size_t bytes) const;
  /// Bytes of the body that is coming in.
  [[nodiscard]] std::size_t of_body() const;
  /// Whether the other rank's process has ended, where that can be known.
  [[nodiscard]] bool has_ended() const;
  /// Before anything else is said.
  void say_process();

  Loop* m_loop;
  Job* m_job;
  std::uint32_t m_peer;
  std::uint32_t m_number;
  asio::ip::tcp::socket m_socket;
  std::uint64_t m_sockets = 0;  ///< so far: what is still awaited of an earlier one is of no interest
  bool m_is_open = false;       ///< has a socket
  bool m_is_over = false;       ///< and gets none any more
  bool m_is_leaving = false;
  Nanoseconds m_left = 0;       ///< when it began to
  bool m_has_said_all = false;  ///< and hung up for its part
  std::atomic<bool> m_has_heard{false};
  std::atomic<bool> m_is_broken{false};

  std::mutex m_mutex;
  Ring<Asked> m_asked;            ///< guarded by m_mutex: not sent yet
  std::uint64_t m_next = 0;       ///< guarded by m_mutex: the next request's number
  std::uint64_t m_cancelled = 0;  ///< guarded by m_mutex: requests before this one are cancelled
  Ring<Message> m_said;           ///< guarded by m_mutex: not sent yet
  bool m_is_lost = false;         ///< guarded by m_mutex: what is asked now is completed by work()
  std::atomic<std::uint32_t> m_unanswered{0};

  // Receiving: what belongs to no body lies in m_stage.
  std::array<std::byte, 4096> m_stage{};
  int m_enough = 1;  ///< bytes that the socket waits for before it wakes anybody
  std::size_t m_begin = 0;
  std::size_t m_end = 0;
  Body m_body = Body::none;
  FrameHead m_head;
  HeadBytes m_head_bytes{};
  FrameSum m_sum{};
  FrameSums m_received;
  std::uint64_t m_messages_heard = 0;
  std::span<std::byte> m_rest;       ///< of the body, where it goes
  std::vector<std::byte> m_message;  ///< of a body that is no reply, or one that is not wanted any more
  Ring<Asked> m_awaited;             ///< in the order in which answers come
  std::size_t m_asked_here = 0;      ///< of m_awaited, those at the front that were sent over this socket
  std::vector<RequestEntry> m_entries;

  // Sending.
  Ring<ServedRequest> m_served;
  Outbox m_outbox;
  Ring<Message> m_unheard;       ///< messages that the other rank may not have heard
  std::size_t m_said_here = 0;   ///< of m_unheard, those at the front that were sent over this socket
  std::uint64_t m_messages = 0;  ///< given a number so far
  bool m_owes_sign = false;
  std::optional<ProcessIdentity> m_process;  ///< the other rank's, on this machine
  bool m_awaits_writing = false;

  // When something last happened.
  Nanoseconds m_heard = 0;     ///< a frame that is whole and right
  Nanoseconds m_opened = 0;    ///< this socket
  Nanoseconds m_read = 0;      ///< any bytes
  Nanoseconds m_answered = 0;  ///< a byte of an answer, or the first one became due
  Nanoseconds m_due = 0;       ///< the first answer became due
  Nanoseconds m_sent = 0;      ///< a byte, or there began to be some to send
};

}  // namespace dsanalyze::transport
