#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "connection.hpp"
#include "group.hpp"
#include "loaders/dataset/dataset.hpp"
#include "messages.hpp"
#include "pace.hpp"
#include "socket_path.hpp"

namespace dsanalyze {

/// Another descriptor of the same. Throws Error when there is none to be had.
FileDescriptor second_descriptor(int first);
/// 0 for no segment.
Bytes segment_bytes(int descriptor);

/// Lines to a host, and processes that its cache serves.
constexpr std::size_t most_connections = 256;

/// The host's one thread, which never waits for a member, and what other threads tell it.
struct GroupHost::Impl {
  using Attachments = group_protocol::Attachments;
  using Connection = group_protocol::Connection;
  using Head = group_protocol::Head;
  using Message = group_protocol::Message;
  using Stage = Connection::Stage;

  explicit Impl(Parts given);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Any thread.
  FileDescriptor connect();
  void tell(std::atomic<bool>& what);  ///< wakes the thread
  bool wait_over(Deadline deadline);
  [[nodiscard]] State seen_state() const;
  [[nodiscard]] std::vector<GroupJobAccount> seen_accounts() const;

  /// A job at its place, until nothing of it is needed any more.
  struct Placed {
    Attachments segments;        ///< page, slab
    std::uint32_t attached = 0;  ///< which of them
    std::int64_t process = 0;
    Bytes bytes = 0;
    std::uint64_t first_epoch = 0;
    std::size_t account = 0;  ///< in `accounts`
    bool lives = true;
    bool departed = false;
    bool process_ended = false;
    Nanoseconds line_ended = 0;  ///< when; 0: it has not
  };

  // The thread: sockets (host_loop.cpp).
  void run();
  void round();
  void wait_for_something();
  void take_commands();
  void accept_all();
  void look_at_all();
  void hear(Connection& connection);
  void handle(Connection& connection, Message& message, const MessageSender& sender);
  void settle_ended_lines();
  void drop_overdue();
  void drop_hung_up();
  void drop_gone();

  // The thread: jobs (host_jobs.cpp).
  void greet(Connection& connection, const Message& message, const MessageSender& sender);
  void place(Connection& connection, Message& message);
  void introduce(Connection& to, std::uint32_t place);
  void introduce_all(Connection& newcomer);
  void refuse(Connection& connection, const std::string& why);
  void say(Connection& to, const Head& head, const std::string& text = {}, const Attachments& attached = nullptr);
  void line_ended(Connection& connection);
  void survey();
  [[nodiscard]] bool while_starting(const StagingRound::Late& late) const;
  void note_departure(const StagingRound::Departed& departed, const StagingCounts& counts);
  void let_in();
  void publish_state();
  [[nodiscard]] std::uint32_t occupied() const;
  [[nodiscard]] Nanoseconds until_next_epoch() const;
  [[nodiscard]] std::uint64_t ended_epochs() const;  ///< all below it
  void emit(GroupEvent::Kind kind, std::uint32_t place, std::int64_t process, std::string text) noexcept;

  Parts parts;
  MemorySegment index_segment;
  std::array<std::optional<Placed>, staging_most_jobs> places;
  StagingCoordinator coordinator;
  std::optional<ListeningSocket> listener;
  FileDescriptor wake;
  const pid_t process;

  // Of the thread alone.
  group_protocol::Inbox inbox;
  std::list<Connection> connections;
  std::vector<pollfd> polled;
  std::vector<Connection*> polled_for;  ///< of each; nullptr: not a connection
  GroupPace pace;
  StagingProgress progress;
  std::uint64_t asks = 0;
  std::uint64_t joined = 0;
  Nanoseconds next_survey = 0;
  Bytes fixed_bytes = 0;  ///< board and the coordinator's slab
  Attachments own_slab;   ///< the coordinator's
  bool accepts = true;    ///< not while there are no descriptors left
  bool ending = false;    ///< the coordinator was told so
  bool ended = false;

  std::atomic<bool> stopping{false};
  std::atomic<bool> to_begin{false};
  std::atomic<bool> to_end{false};
  mutable std::mutex mutex;
  std::vector<FileDescriptor> new_lines;  ///< by connect()
  State state;
  std::vector<GroupJobAccount> accounts;
  bool nobody_left = false;  ///< of those that took part
  std::atomic<std::uint32_t> changes{0};

  std::jthread thread;  ///< last: it uses all of the above
};

}  // namespace dsanalyze
