#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/team/job.hpp"
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

/// Samples of the other ranks, over the lines.
class Requests final : public PeerSource {
 public:
  Requests(Job& job, const Lines& lines) : m_job(&job), m_lines(&lines) {}
  void deliver_to(Sink sink) override { m_job->deliveries.deliver_to(std::move(sink)); }
  Status submit(std::span<const PeerRequest> requests) override;
  void release(std::span<const std::uint32_t> buffers) override { m_job->places.give_back(buffers); }
  void cancel() override;
  [[nodiscard]] std::size_t capacity() const override { return m_job->places.count(); }
  [[nodiscard]] std::size_t free_places() const override { return m_job->places.free(); }
  [[nodiscard]] bool alive(std::uint32_t rank) const override { return m_job->members.alive(rank); }
  [[nodiscard]] Bytes received() const override { return m_job->counts.bytes_received.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool is_possible(const PeerRequest& request) const;

  Job* m_job;
  const Lines* m_lines;
};

}  // namespace dsanalyze::transport
