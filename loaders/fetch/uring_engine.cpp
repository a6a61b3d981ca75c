#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "fetch_engine.hpp"
#include "file_access.hpp"
#include "job_desk.hpp"
#include "kept_files.hpp"
#include "uring_worker.hpp"

namespace dsanalyze {
namespace {

class UringEngine final : public FetchEngine {
 public:
  UringEngine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing)
      : m_access(std::move(index), options), m_desk(options, timing) {
    const auto rings = static_cast<std::size_t>(std::clamp(options.rings, 1, std::max(options.concurrency, 1)));
    const std::size_t reads = std::max<std::size_t>((static_cast<std::size_t>(options.concurrency) + rings - 1) / rings, 1);
    const std::size_t kept = std::max<std::size_t>(KeptFiles::most_files() / rings, 1);
    try {
      const IoSupport support = uring_support();
      if (!support.usable) throw Error(support.reason);
      for (std::size_t i = 0; i < rings; ++i) m_workers.push_back(std::make_unique<UringWorker>(m_access, m_desk, reads, kept));
    } catch (const NoMemoryError&) {
      throw;
    } catch (const Error& error) {
      throw Error(fmt::format("io_uring cannot be used: {}. Pass --io pread to read with threads", error.what()));
    }
    try {
      for (const auto& worker : m_workers) m_threads.emplace_back([ring = worker.get()] { ring->run(); });
    } catch (const std::exception& error) {
      close();
      throw_no_thread(error, fmt::format("{} threads for io_uring", rings), "pass --io pread to read with others");
    }
  }

  ~UringEngine() override { close(); }
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  Status submit(std::span<const FetchRequest> requests) override {
    const Status status = m_desk.submit(requests);
    if (status.ok()) {
      for (const auto& worker : m_workers) worker->wake();
    }
    return status;
  }
  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override { return m_desk.reap(completions, deadline); }
  void release(std::span<const FetchBuffer> buffers) override { m_desk.pool().give_back(buffers); }
  void cancel() override {
    m_desk.cancel();
    for (const auto& worker : m_workers) worker->wake_always();
  }
  [[nodiscard]] std::size_t capacity() const override { return m_desk.pool().capacity(); }
  [[nodiscard]] std::size_t free_places() const override { return m_desk.pool().free_places(); }
  [[nodiscard]] Bytes requested() const override { return m_access.requested(); }

 private:
  void close() {
    m_desk.close();
    for (const auto& worker : m_workers) worker->wake_always();
    m_threads.clear();
  }

  FileAccess m_access;
  JobDesk m_desk;
  std::vector<std::unique_ptr<UringWorker>> m_workers;
  std::vector<std::jthread> m_threads;
};

}  // namespace

std::unique_ptr<FetchEngine> make_uring_engine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing) {
  return std::make_unique<UringEngine>(std::move(index), options, timing);
}

}  // namespace dsanalyze
