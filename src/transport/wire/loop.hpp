#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "base/system/files.hpp"
#include "handshake.hpp"
#include "transport/team/job.hpp"

namespace dsanalyze::transport {

class Connection;

/// A thread that serves connections. Threads: any for add() and wake(); connections call the rest from within.
class Loop {
 public:
  explicit Loop(Job& job);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Served from now on. The connection outlives the loop's thread.
  void add(Connection& connection);
  /// The connection goes on over this socket.
  void replace_socket(Connection& connection, FileDescriptor socket, const FrameKeys& keys);
  /// Has the connection look at what was asked of it.
  void wake(Connection& connection);
  /// All say what they still have to say and hang up, until the deadline; then the thread ends.
  void finish(Deadline deadline);
  void join() { m_thread.join(); }

  asio::io_context& context() { return m_context; }
  Job& job() { return *m_job; }
  /// Delivered at the end of what the thread is doing, in one group.
  void complete(const PeerCompletion& completion);
  void deliver();
  void closed();

 private:
  struct WakeHandler;
  void work();
  void look_around();
  void look_after(std::chrono::nanoseconds interval);

  Job* m_job;
  asio::io_context m_context{1};
  asio::steady_timer m_timer;
  std::mutex m_mutex;
  std::vector<Connection*> m_woken;    ///< guarded by m_mutex
  std::vector<Connection*> m_working;  ///< the thread's
  std::atomic<bool> m_is_posted{false};
  alignas(std::max_align_t) std::array<std::byte, 256> m_wake_memory{};
  std::vector<Connection*> m_connections;
  std::vector<PeerCompletion> m_completions;
  std::size_t m_open = 0;
  bool m_is_finishing = false;
  Deadline m_end;
  std::thread m_thread;
};

}  // namespace dsanalyze::transport
