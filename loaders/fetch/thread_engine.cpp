#include <fmt/format.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "buffer_pool.hpp"
#include "dsanalyze/base/bounded_queue.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/loaders/fetch_engine.hpp"
#include "file_reader.hpp"

namespace dsanalyze {
namespace {

constexpr double idle_seconds = 1;  // how often an idle thread looks whether it should end

struct Job {
  FetchRequest request;
  std::uint32_t buffer = 0;
  std::uint64_t number = 0;
};

class ThreadEngine final : public FetchEngine {
 public:
  ThreadEngine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing)
      : m_timing(timing),
        m_reader(std::move(index), options.read_mode, options.page_cache),
        m_pool(options.capacity),
        m_jobs(options.capacity, timing),
        m_done(options.capacity, timing),
        m_max_bytes_per_second(options.max_bytes_per_second) {
    try {
      for (int i = 0; i < options.concurrency; ++i) m_threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      close();
      throw Error(
          fmt::format("cannot start {} reading threads: the system or a container limits them; pass a smaller --io-depth", options.concurrency));
    }
  }

  ~ThreadEngine() override { close(); }
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  Status submit(std::span<const FetchRequest> requests) override {
    std::array<std::uint32_t, largest_group> ids{};
    std::array<Job, largest_group> jobs{};
    if (requests.size() > largest_group || !m_pool.take(std::span(ids).first(requests.size()))) return {StatusCode::busy, 0};
    const std::uint64_t first = m_submitted.fetch_add(requests.size(), std::memory_order_relaxed);
    for (std::size_t i = 0; i < requests.size(); ++i) jobs[i] = {requests[i], ids[i], first + i};
    // The queue has a place for every buffer, so this never waits.
    if (!m_jobs.push(std::span(jobs).first(requests.size()), m_timing.clock->after(idle_seconds))) return {StatusCode::cancelled, 0};
    return {};
  }

  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override { return m_done.pop(completions, deadline); }
  void release(std::span<const FetchBuffer> buffers) override { m_pool.give_back(buffers); }
  void cancel() override {
    m_cancelled.store(m_submitted.load(std::memory_order_relaxed), std::memory_order_release);
    m_pacing.notify(*m_timing.waiter, 1 << 20);
  }
  [[nodiscard]] std::size_t capacity() const override { return m_pool.capacity(); }
  [[nodiscard]] std::size_t free_places() const override { return m_pool.free_places(); }
  [[nodiscard]] Bytes requested() const override { return m_reader.requested(); }

 private:
  void close() {
    cancel();
    m_jobs.close();
    m_done.close();
    m_threads.clear();
  }

  [[nodiscard]] bool cancelled(const Job& job) const { return job.number < m_cancelled.load(std::memory_order_acquire); }

  void work() {
    Job job;
    for (;;) {
      if (m_jobs.pop({&job, 1}, m_timing.clock->after(idle_seconds)) == 0) {
        if (m_jobs.closed()) return;
        continue;
      }
      if (m_max_bytes_per_second > 0) spare_the_storage(job);
      FetchCompletion completion{job.request.tag, job.request.sample, {StatusCode::cancelled, 0}, {}, {job.buffer}, 0};
      if (!cancelled(job)) completion.status = m_reader.read(job.request.extent, m_pool, job.buffer, completion.bytes);
      completion.done_at = m_timing.clock->now();
      if (!m_done.push({&completion, 1}, m_timing.clock->after(idle_seconds))) return;
    }
  }

  /// Waits for this request's turn at the rate that the user allows, unless it is cancelled.
  void spare_the_storage(const Job& job) {
    const Nanoseconds now = m_timing.clock->now();
    const Nanoseconds cost = to_nanoseconds(static_cast<double>(job.request.extent.length) / m_max_bytes_per_second);
    const Nanoseconds turn = reserve(m_limit, now, cost, now) - cost;
    for (;;) {
      const auto ticket = m_pacing.ticket();
      if (cancelled(job) || m_timing.clock->now() >= turn) return;
      m_pacing.wait(*m_timing.waiter, ticket, {turn});
    }
  }

  Timing m_timing;
  FileReader m_reader;
  BufferPool m_pool;
  BoundedQueue<Job> m_jobs;
  BoundedQueue<FetchCompletion> m_done;
  double m_max_bytes_per_second;
  DeviceLane m_limit;
  Signal m_pacing;
  std::atomic<std::uint64_t> m_submitted{0};
  std::atomic<std::uint64_t> m_cancelled{0};
  std::vector<std::jthread> m_threads;
};

}  // namespace

std::unique_ptr<FetchEngine> make_thread_engine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing) {
  return std::make_unique<ThreadEngine>(std::move(index), options, timing);
}

}  // namespace dsanalyze
