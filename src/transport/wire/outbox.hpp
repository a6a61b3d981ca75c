#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "frame_sums.hpp"
#include "transport/team/job.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

/// What is said beside samples.
struct Message {
  FrameKind kind = FrameKind::heartbeat;
  std::uint64_t number = 0;
  std::uint64_t said = 0;  ///< FrameHead::said
  std::shared_ptr<const std::vector<std::byte>> bytes;
};

/// A sample that another rank asked for.
struct ServedRequest {
  RequestEntry entry;
  std::uint64_t number = 0;
};

/// The frames that are being sent on one connection: gathered from where their bytes lie, a few at a time. Threads: one.
class Outbox {
 public:
  explicit Outbox(Job& job) : m_job(&job) {}
  ~Outbox() { clear(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// Of the socket that frames are sent over from now on.
  void sum_with(const FrameSums& sums) { m_sums = sums; }
  /// Told in every frame: messages that came the other way.
  void acknowledge(std::uint64_t heard) { m_heard = heard; }
  [[nodiscard]] std::uint64_t acknowledged() const { return m_acknowledged; }

  [[nodiscard]] bool empty() const { return m_first == m_count; }
  /// Room for one more frame, and few enough bytes that what was just read for its checksum is still in the processor's caches when it is sent.
  [[nodiscard]] bool has_room() const { return m_frames < most_frames && m_bytes < enough_bytes; }
  void add_requests(std::uint64_t first_number, std::span<const RequestEntry> entries);
  void add_message(Message message);
  void add_answer(const ServedRequest& request);
  /// Sends what the socket takes. Returns bytes, or -1 with errno.
  ssize_t send(int socket);
  /// What is not sent is not any more.
  void clear();

 private:
  static constexpr std::size_t most_frames = 8;
  static constexpr std::size_t enough_bytes = 256U << 10U;
  void add(FrameKind kind, std::uint64_t number, std::uint64_t said, std::span<const std::byte> bytes);

  struct SummedHead {
    HeadBytes head;
    FrameSum sum;
  };
  static_assert(sizeof(SummedHead) == head_bytes);

  Job* m_job;
  FrameSums m_sums;
  std::uint64_t m_heard = 0;
  std::uint64_t m_acknowledged = 0;
  std::array<SummedHead, most_frames> m_heads{};
  std::array<iovec, 2 * most_frames> m_parts{};
  std::array<std::byte, most_small> m_requests{};
  std::array<Message, most_frames> m_messages{};
  std::size_t m_frames = 0;
  std::size_t m_first = 0;
  std::size_t m_count = 0;
  std::size_t m_bytes = 0;
  bool m_is_pinned = false;
};

/// First in, first out. Takes memory as it grows and keeps it: none in the steady state. Threads: one.
template <typename Item>
class Ring {
 public:
  [[nodiscard]] bool empty() const { return m_count == 0; }
  [[nodiscard]] std::size_t size() const { return m_count; }
  Item& front() { return m_items[m_first]; }
  [[nodiscard]] const Item& front() const { return m_items[m_first]; }
  Item& operator[](std::size_t position) { return m_items[(m_first + position) % m_items.size()]; }
  void push(Item item) {
    if (m_count == m_items.size()) grow();
    m_items[(m_first + m_count) % m_items.size()] = std::move(item);
    ++m_count;
  }
  Item pop() {
    Item item = std::exchange(m_items[m_first], Item{});
    m_first = (m_first + 1) % m_items.size();
    --m_count;
    return item;
  }

 private:
  void grow() {
    std::vector<Item> larger(m_items.empty() ? 16 : m_items.size() * 2);
    for (std::size_t i = 0; i < m_count; ++i) larger[i] = std::move((*this)[i]);
    m_items = std::move(larger);
    m_first = 0;
  }

  std::vector<Item> m_items;
  std::size_t m_first = 0;
  std::size_t m_count = 0;
};

}  // namespace dsanalyze::transport
