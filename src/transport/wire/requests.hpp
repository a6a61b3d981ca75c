#pragma once

#include <array>

#include "transport/rendezvous/lines.hpp"
#include "transport/team/job.hpp"

namespace dsanalyze::transport {

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
