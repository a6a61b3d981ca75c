#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "outbox.hpp"

namespace dsanalyze::transport {

/// A sample that this rank asks of another.
struct AskedSample {
  PeerRequest request;
  std::uint32_t place = 0;
  Nanoseconds at = 0;
  std::uint64_t number = 0;
  bool is_cancelled = false;  ///< is completed already, and its answer is not wanted
};

/// What other threads ask of a connection and say over it, until the loop's thread takes it.
/// Threads: any for ask(), say(), cancel_all() and unanswered(); the loop's for the rest.
class ConnectionQueue {
 public:
  void ask(const PeerRequest& request, std::uint32_t place, Nanoseconds now) {
    m_unanswered.fetch_add(1, std::memory_order_relaxed);
    const std::scoped_lock lock(m_mutex);
    m_asked.push({request, place, now, m_next++, false});
  }
  /// Dropped where the connection is lost.
  void say(Message message) {
    const std::scoped_lock lock(m_mutex);
    if (!m_is_lost) m_said.push(std::move(message));
  }
  void cancel_all() {
    const std::scoped_lock lock(m_mutex);
    m_cancelled = m_next;
  }
  /// Samples that were asked for and are not settled.
  [[nodiscard]] std::uint32_t unanswered() const { return m_unanswered.load(std::memory_order_relaxed); }
  void settle_one() { m_unanswered.fetch_sub(1, std::memory_order_relaxed); }

  /// The next one, where it is cancelled: its number is below `before`, which is set.
  std::optional<AskedSample> pop_cancelled(std::uint64_t& before) {
    const std::scoped_lock lock(m_mutex);
    before = m_cancelled;
    if (m_asked.empty() || m_asked.front().number >= before) return std::nullopt;
    return m_asked.pop();
  }
  std::optional<AskedSample> pop() {
    const std::scoped_lock lock(m_mutex);
    if (m_asked.empty()) return std::nullopt;
    return m_asked.pop();
  }
  /// Appends at most `most` of those that were asked for.
  void take_asked(std::size_t most, Ring<AskedSample>& into) {
    const std::scoped_lock lock(m_mutex);
    for (; most > 0 && !m_asked.empty(); --most) into.push(m_asked.pop());
  }
  /// Calls use(Message) with all that was said.
  template <typename Use>
  void take_said(const Use& use) {
    const std::scoped_lock lock(m_mutex);
    while (!m_said.empty()) use(m_said.pop());
  }
  /// Nothing more is said; what is asked from now on is the loop's to fail.
  void lose() {
    const std::scoped_lock lock(m_mutex);
    m_is_lost = true;
    while (!m_said.empty()) m_said.pop();
  }

 private:
  std::mutex m_mutex;
  Ring<AskedSample> m_asked;      ///< guarded by m_mutex, as all below: not sent yet
  std::uint64_t m_next = 0;       ///< the next request's number
  std::uint64_t m_cancelled = 0;  ///< requests before this one are cancelled
  Ring<Message> m_said;           ///< not sent yet
  bool m_is_lost = false;
  std::atomic<std::uint32_t> m_unanswered{0};
};

}  // namespace dsanalyze::transport
