#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/wire/connection.hpp"
#include "transport/wire/loop.hpp"

namespace dsanalyze::transport {

/// The connections with all other ranks. Each comes once and stays, open or not. Threads: any, at once.
class Lines {
 public:
  explicit Lines(const RankFacts& facts) : m_per_peer(facts.connections_per_peer), m_lines(std::size_t{facts.world} * facts.connections_per_peer) {}

  /// nullptr while there is none.
  [[nodiscard]] Connection* get(std::uint32_t rank, std::uint32_t number) const {
    return m_lines[std::size_t{rank} * m_per_peer + number].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool complete(std::uint32_t rank) const {
    bool all = true;
    for_each(rank, [&](Connection* line) { all = all && line != nullptr; });
    return all;
  }
  /// The one over which the fewest samples are on their way. Requires that all are there.
  [[nodiscard]] Connection& least_busy(std::uint32_t rank) const {
    Connection* best = get(rank, 0);
    for (std::uint32_t number = 1; number < m_per_peer; ++number) {
      Connection* const line = get(rank, number);
      if (line->unanswered() < best->unanswered()) best = line;
    }
    return *best;
  }
  template <typename Use>
  void for_each(std::uint32_t rank, const Use& use) const {
    for (std::uint32_t number = 0; number < m_per_peer; ++number) use(get(rank, number));
  }
  template <typename Use>
  void for_all(const Use& use) const {
    for (const auto& line : m_lines) {
      if (Connection* const connection = line.load(std::memory_order_acquire)) use(*connection);
    }
  }
  void add(Loop& loop, FileDescriptor socket, const FrameKeys& keys, std::uint32_t rank, std::uint32_t number) {
    auto connection = std::make_unique<Connection>(loop, std::move(socket), keys, rank, number);
    Connection& added = *connection;
    {
      const std::scoped_lock lock(m_mutex);
      m_connections.push_back(std::move(connection));
    }
    // Started before anybody can wake it.
    loop.add(added);
    m_lines[std::size_t{rank} * m_per_peer + number].store(&added, std::memory_order_release);
  }

 private:
  std::uint32_t m_per_peer;
  std::vector<std::atomic<Connection*>> m_lines;
  std::mutex m_mutex;
  std::vector<std::unique_ptr<Connection>> m_connections;  ///< guarded by m_mutex
};

}  // namespace dsanalyze::transport
