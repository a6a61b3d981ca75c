#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <vector>

#include "clock.hpp"

namespace dsanalyze {

/// A word that changes whenever something happened, for waiting without losing a wake-up:
/// take a ticket, look at the condition, and wait with the ticket if it does not hold yet.
class Signal {
 public:
  [[nodiscard]] std::uint32_t ticket() const { return m_word.load(std::memory_order_acquire); }
  /// Call after the condition changed. `count` waiters wake.
  void notify(Waiter& waiter, int count) {
    // In one total order with wait()'s: either this sees the waiter, or the waiter sees the new word.
    m_word.fetch_add(1, std::memory_order_seq_cst);
    if (m_waiting.load(std::memory_order_seq_cst) > 0) waiter.wake(m_word, count);
  }
  /// Waits for a notify() since `ticket`; false if the deadline passed first.
  bool wait(Waiter& waiter, std::uint32_t ticket, Deadline deadline) {
    m_waiting.fetch_add(1, std::memory_order_seq_cst);
    const bool in_time = waiter.wait(m_word, ticket, deadline);
    m_waiting.fetch_sub(1, std::memory_order_relaxed);
    return in_time;
  }

 private:
  std::atomic<std::uint32_t> m_word{0};
  std::atomic<std::uint32_t> m_waiting{0};
};

/// First in, first out, at most `capacity` items, moved in groups so that one lock serves many.
/// Threads: any number of producers and consumers. No allocation after construction.
template <typename Item>
class BoundedQueue {
 public:
  BoundedQueue(std::size_t capacity, Timing timing) : m_ring(std::max<std::size_t>(capacity, 1)), m_timing(timing) {}

  /// Puts all items in, waiting for room; false if the queue was closed or the deadline passed (some may be in then: `pushed`). Tries once
  /// whatever the deadline; a deadline in the past never blocks.
  bool push(std::span<const Item> items, Deadline deadline, std::size_t* pushed = nullptr) {
    std::size_t done = 0;
    for (bool expired = false; done < items.size();) {
      const auto ticket = m_room.ticket();
      const std::size_t before = done;
      {
        const std::scoped_lock lock(m_mutex);
        if (m_closed) break;
        for (; done < items.size() && m_count < m_ring.size(); ++done, ++m_count) m_ring[(m_head + m_count) % m_ring.size()] = items[done];
      }
      if (done > before) m_filled.notify(*m_timing.waiter, static_cast<int>(done - before));
      if (done == items.size() || expired) break;
      expired = !m_room.wait(*m_timing.waiter, ticket, deadline) || m_timing.clock->now() >= deadline.at;
    }
    if (pushed != nullptr) *pushed = done;
    return done == items.size();
  }

  /// Takes at least one item and at most out.size(), but no more than a fair share for `sharers` consumers; 0 when closed and empty, when
  /// the deadline passed (a deadline in the past never blocks) or when `out` is empty.
  std::size_t pop(std::span<Item> out, Deadline deadline, std::size_t sharers = 1) {
    if (out.empty()) return 0;
    for (bool expired = false;;) {
      const auto ticket = m_filled.ticket();
      std::size_t taken = 0;
      bool closed = false;
      {
        const std::scoped_lock lock(m_mutex);
        const std::size_t share = std::max<std::size_t>(m_count / std::max<std::size_t>(sharers, 1), 1);
        const std::size_t wanted = std::min({out.size(), m_count, share});
        for (; taken < wanted; ++taken, --m_count) {
          out[taken] = m_ring[m_head];
          m_head = (m_head + 1) % m_ring.size();
        }
        closed = m_closed;
      }
      if (taken > 0) {
        m_room.notify(*m_timing.waiter, static_cast<int>(taken));
        return taken;
      }
      if (closed || expired) return 0;
      expired = !m_filled.wait(*m_timing.waiter, ticket, deadline) || m_timing.clock->now() >= deadline.at;
    }
  }

  /// No more items go in; what is in can still be taken; all waiters return.
  void close() {
    {
      const std::scoped_lock lock(m_mutex);
      m_closed = true;
    }
    m_filled.notify(*m_timing.waiter, std::numeric_limits<int>::max());
    m_room.notify(*m_timing.waiter, std::numeric_limits<int>::max());
  }
  [[nodiscard]] bool closed() const {
    const std::scoped_lock lock(m_mutex);
    return m_closed;
  }
  [[nodiscard]] std::size_t size() const {
    const std::scoped_lock lock(m_mutex);
    return m_count;
  }
  [[nodiscard]] std::size_t capacity() const { return m_ring.size(); }

 private:
  mutable std::mutex m_mutex;
  std::vector<Item> m_ring;
  std::size_t m_head = 0;
  std::size_t m_count = 0;
  bool m_closed = false;
  Signal m_filled;
  Signal m_room;
  Timing m_timing;
};

}  // namespace dsanalyze
