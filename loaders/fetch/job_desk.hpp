#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bounded_queue.hpp"
#include "buffer_pool.hpp"
#include "fetch_engine.hpp"
#include "file_access.hpp"

namespace dsanalyze {

/// One request on its way through an engine.
struct FetchJob {
  FetchRequest request;
  std::uint32_t buffer = 0;
  std::uint64_t number = 0;
  Nanoseconds begun = 0;  ///< when the engine took it up
};

/// What the engines that read real files have in common: places, the queues in and out, cancelling, the turns of a limited rate. Threads: any.
class JobDesk {
 public:
  static constexpr double idle_seconds = 1;  ///< how often an idle thread looks whether it should end

  JobDesk(const FetchOptions& options, Timing timing)
      : m_timing(timing),
        m_pool(options.capacity),
        m_jobs(options.capacity, timing),
        m_done(options.capacity, timing),
        m_max_bytes_per_second(options.max_bytes_per_second) {}

  Status submit(std::span<const FetchRequest> requests) {
    constexpr std::size_t most = FetchEngine::largest_group;
    std::array<std::uint32_t, most> ids{};
    std::array<FetchJob, most> jobs{};
    if (requests.size() > most || !m_pool.take(std::span(ids).first(requests.size()))) return {StatusCode::busy, 0};
    const std::uint64_t first = m_submitted.fetch_add(requests.size(), std::memory_order_relaxed);
    for (std::size_t i = 0; i < requests.size(); ++i) jobs[i] = {requests[i], ids[i], first + i};
    // The queue has a place for every buffer, so this never waits.
    if (!m_jobs.push(std::span(jobs).first(requests.size()), soon())) return {StatusCode::cancelled, 0};
    return {};
  }
  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) { return m_done.pop(completions, deadline); }
  void cancel() { m_cancelled.store(m_submitted.load(std::memory_order_relaxed), std::memory_order_release); }
  void close() {
    cancel();
    m_jobs.close();
    m_done.close();
  }

  /// The next job; false when there is none before the deadline.
  bool take(FetchJob& job, Deadline deadline) {
    if (m_jobs.pop({&job, 1}, deadline) == 0) return false;
    job.begun = m_timing.clock->now();
    return true;
  }
  [[nodiscard]] bool closed() const { return m_jobs.closed(); }
  [[nodiscard]] bool empty() const { return m_jobs.size() == 0; }
  [[nodiscard]] bool cancelled(const FetchJob& job) const { return job.number < m_cancelled.load(std::memory_order_acquire); }
  /// False once the request queue is closed.
  bool complete(std::span<const FetchCompletion> completions) { return m_done.push(completions, soon()); }
  [[nodiscard]] FetchCompletion completion(const FetchJob& job, Status status, std::span<const std::byte> bytes) const {
    const Nanoseconds now = m_timing.clock->now();
    return {job.request.tag, job.request.sample, status, bytes, {job.buffer}, now, now - job.begun};
  }

  /// When this job may begin at the rate that the user allows; 0 if there is no limit. Each job asks once. Turns are this process's alone and may lie
  /// hours ahead: the sanity check of lanes that processes share (max_backlog) is not for them.
  Nanoseconds turn_of(const FetchJob& job) {
    if (m_max_bytes_per_second <= 0) return 0;
    constexpr double longest_seconds = 1e6;  // of one job, so that the turns of all places stay within 64 bits
    const double seconds = static_cast<double>(job.request.extent.length) / m_max_bytes_per_second;
    const Nanoseconds cost = to_nanoseconds(std::min(seconds, longest_seconds));
    const Nanoseconds now = m_timing.clock->now();
    Nanoseconds next = m_next_turn.load(std::memory_order_relaxed);
    while (!m_next_turn.compare_exchange_weak(next, std::max(next, now) + cost, std::memory_order_relaxed)) continue;
    return std::max(next, now);
  }

  [[nodiscard]] BufferPool& pool() { return m_pool; }
  [[nodiscard]] const BufferPool& pool() const { return m_pool; }
  [[nodiscard]] Timing timing() const { return m_timing; }
  [[nodiscard]] Deadline soon() const { return m_timing.clock->after(idle_seconds); }

 private:
  Timing m_timing;
  BufferPool m_pool;
  BoundedQueue<FetchJob> m_jobs;
  BoundedQueue<FetchCompletion> m_done;
  double m_max_bytes_per_second;
  std::atomic<Nanoseconds> m_next_turn{0};
  std::atomic<std::uint64_t> m_submitted{0};
  std::atomic<std::uint64_t> m_cancelled{0};
};

/// An engine that reads real files: what the threads and the rings have in common.
class DeskEngine : public FetchEngine {
 public:
  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override { return m_desk.reap(completions, deadline); }
  void release(std::span<const FetchBuffer> buffers) override { m_desk.pool().give_back(buffers); }
  [[nodiscard]] std::size_t capacity() const override { return m_desk.pool().capacity(); }
  [[nodiscard]] std::size_t free_places() const override { return m_desk.pool().free_places(); }
  [[nodiscard]] Bytes requested() const override { return m_access.requested(); }

 protected:
  DeskEngine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing)
      : m_access(std::move(index), options), m_desk(options, timing) {}

  FileAccess m_access;
  JobDesk m_desk;
};

}  // namespace dsanalyze
