#include <fmt/format.h>

#include <thread>
#include <vector>

#include "base/error.hpp"
#include "fetch_engine.hpp"
#include "file_access.hpp"
#include "file_reader.hpp"
#include "job_desk.hpp"

namespace dsanalyze {
namespace {

class ThreadEngine final : public DeskEngine {
 public:
  ThreadEngine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing)
      : DeskEngine(std::move(index), options, timing), m_timing(timing), m_reader(m_access, timing) {
    try {
      start(options.concurrency);
    } catch (const std::exception&) {
      close();
      throw;
    }
  }

  ~ThreadEngine() override { close(); }
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  Status submit(std::span<const FetchRequest> requests) override { return m_desk.submit(requests); }
  void cancel() override {
    m_desk.cancel();
    m_pacing.notify(*m_timing.waiter, 1 << 20);
  }

 private:
  /// An error is found out while the threads that were started still have their stacks: only then does it show that memory is short.
  void start(int threads) {
    try {
      for (int i = 0; i < threads; ++i) m_threads.emplace_back([this] { work(); });
    } catch (const std::exception& error) {
      throw_no_thread(error, fmt::format("{} reading threads", threads), "pass a smaller --io-depth");
    }
  }

  void close() {
    m_desk.close();
    m_pacing.notify(*m_timing.waiter, 1 << 20);
    m_threads.clear();
  }

  void work() {
    FetchJob job;
    for (;;) {
      if (!m_desk.take(job, m_desk.soon())) {
        if (m_desk.closed()) return;
        continue;
      }
      wait_until(m_desk.turn_of(job), job);
      Status status{StatusCode::cancelled, 0};
      std::span<const std::byte> bytes;
      if (!m_desk.cancelled(job)) status = m_reader.read(job.request, m_desk.pool(), job.buffer, bytes);
      const FetchCompletion completion = m_desk.completion(job, status, bytes);
      if (!m_desk.complete({&completion, 1})) return;
    }
  }

  /// Returns early if the job is cancelled.
  void wait_until(Nanoseconds turn, const FetchJob& job) {
    for (;;) {
      const auto ticket = m_pacing.ticket();
      if (turn == 0 || m_desk.cancelled(job) || m_timing.clock->now() >= turn) return;
      m_pacing.wait(*m_timing.waiter, ticket, {turn});
    }
  }

  Timing m_timing;
  FileReader m_reader;
  Signal m_pacing;
  std::vector<std::jthread> m_threads;
};

}  // namespace

std::unique_ptr<FetchEngine> make_thread_engine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing) {
  return std::make_unique<ThreadEngine>(std::move(index), options, timing);
}

}  // namespace dsanalyze
