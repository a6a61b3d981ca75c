#pragma once

#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "connection_queue.hpp"
#include "frame_intake.hpp"
#include "handshake.hpp"
#include "outbox.hpp"
#include "transport/team/job.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

class Loop;

/// One of the connections with another rank that has proved to be a member: samples are asked for and given both ways, and what ranks say to one
/// another goes over it. Its socket may break and be replaced: what was in flight then is asked for and said again, so that nothing is lost and
/// nothing comes twice. A rank whose connection stays broken for the peer deadline is lost, as one that says nothing.
/// Threads: any for ask(), say(), cancel_all(), has_heard() and is_broken(), the first three followed by Loop::wake(); the loop's for the rest.
class Connection {
 public:
  /// `socket` does not block. `number`: among those with this peer.
  Connection(Loop& loop, FileDescriptor socket, const FrameKeys& keys, std::uint32_t peer, std::uint32_t number);

  void ask(const PeerRequest& request, std::uint32_t place, Nanoseconds now) { m_queue.ask(request, place, now); }
  void say(FrameKind kind, std::uint64_t number, std::shared_ptr<const std::vector<std::byte>> bytes) {
    m_queue.say({kind, number, 0, std::move(bytes)});
  }
  void cancel_all() { m_queue.cancel_all(); }
  [[nodiscard]] std::uint32_t unanswered() const { return m_queue.unanswered(); }
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
  AskedSample pop_awaited();
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
  void complete(const AskedSample& asked, Status status);
  void answer_came();
  void cancel_asked();
  [[nodiscard]] bool is_overdue(Nanoseconds now) const;
  /// Whether a frame has begun that does not become whole: its length may have been changed on its way, and what follows is then taken for its body.
  /// Found in half of the time after which the other rank is lost, so that there is time to open the connection again.
  [[nodiscard]] bool is_stuck(Nanoseconds now) const;
  [[nodiscard]] Nanoseconds time_to_come(std::size_t bytes) const;
  /// Whether the other rank's process has ended, where that can be known.
  [[nodiscard]] bool has_ended() const;
  /// A byte was sent, or there begins to be some to send.
  void note_sending();
  /// What a rank is lost by whose process has ended. It may first have gone on without this one where this one said nothing for so long that it was
  /// lost itself: it is not known to have ended before that.
  [[nodiscard]] Death death_of_ended() const;
  /// Before anything else is said.
  void say_process();

  /// The socket that it has now.
  struct Link {
    asio::ip::tcp::socket socket;
    std::uint64_t number = 0;   ///< of sockets so far: what is still awaited of an earlier one is of no interest
    bool is_open = false;       ///< has a socket
    bool has_said_all = false;  ///< and hung up for its part
    bool awaits_writing = false;
    int enough = 1;  ///< bytes that the socket waits for before it wakes anybody
  };
  /// Messages of both directions, which come once each and in their order, over however many sockets.
  struct Messages {
    Ring<Message> unheard;      ///< that the other rank may not have heard
    std::size_t said_here = 0;  ///< of `unheard`, those at the front that were sent over this socket
    std::uint64_t said = 0;     ///< given a number so far
    std::uint64_t heard = 0;
  };
  /// When something last happened.
  struct Times {
    Nanoseconds heard = 0;     ///< a frame that is whole and right
    Nanoseconds opened = 0;    ///< this socket
    Nanoseconds read = 0;      ///< any bytes
    Nanoseconds answered = 0;  ///< a byte of an answer, or the first one became due
    Nanoseconds due = 0;       ///< the first answer became due
    Nanoseconds sent = 0;      ///< a byte, or there began to be some to send
  };

  Loop* m_loop;
  Job* m_job;
  std::uint32_t m_peer;
  std::uint32_t m_number;
  Link m_link;
  bool m_is_over = false;  ///< and gets no socket any more
  bool m_is_leaving = false;
  Nanoseconds m_left = 0;  ///< when it began to
  std::atomic<bool> m_has_heard{false};
  std::atomic<bool> m_is_broken{false};

  ConnectionQueue m_queue;
  FrameIntake m_intake;
  Ring<AskedSample> m_awaited;   ///< in the order in which answers come
  std::size_t m_asked_here = 0;  ///< of m_awaited, those at the front that were sent over this socket
  std::vector<RequestEntry> m_entries;
  Ring<ServedRequest> m_served;
  Outbox m_outbox;
  Messages m_messages;
  bool m_owes_sign = false;
  bool m_was_silent = false;                 ///< at some time for so long that the other rank may have lost this one
  std::optional<ProcessIdentity> m_process;  ///< the other rank's, on this machine
  Times m_times;
};

}  // namespace dsanalyze::transport
