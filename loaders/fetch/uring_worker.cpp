#include "uring_worker.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "fetch_engine.hpp"
#include "file_access.hpp"
#include "job_desk.hpp"

namespace dsanalyze {
namespace {

FileDescriptor make_event() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC));
  if (!event.valid()) throw Error("cannot make an event for io_uring: " + describe_errno(errno));
  return event;
}

/// Every read's longest chain, and a drop beside it, fit at once: no chain waits for room that another takes.
unsigned entries_for(std::size_t reads) { return static_cast<unsigned>(reads) * (UringChains::longest + 1) + 4; }

}  // namespace

UringWorker::UringWorker(FileAccess& access, JobDesk& desk, std::size_t reads, std::size_t kept_files)
    : m_access(access),
      m_desk(desk),
      m_wake(make_event()),
      m_ring(entries_for(reads), static_cast<unsigned>(kept_files + reads)),
      m_chains(m_ring, access, kept_files, reads),
      m_kept(kept_files),
      m_files(kept_files),
      m_reads(reads),
      m_free(reads) {
  std::iota(m_free.rbegin(), m_free.rend(), 0U);
  for (std::uint32_t i = 0; i < reads; ++i) m_reads[i].number = i;
}

void UringWorker::wake() {
  if (m_waiting.exchange(false)) wake_always();
}

void UringWorker::wake_always() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(m_wake.get(), &one, sizeof(one)));  // fails only if 2^64 wakes were not seen
}

void UringWorker::run() {
  if (const Status started = m_ring.start(); !started.ok()) {
    refuse_all(started);
    return;
  }
  for (;;) {
    while (take_jobs()) continue;
    hand_over();
    const bool closed = m_desk.closed();
    if (closed && m_free.size() == m_reads.size() && m_drops == 0 && !m_wake_awaited) return;
    if (closed && !m_gave_up && m_free.size() < m_reads.size()) {
      m_gave_up = true;
      m_chains.cancel_all();
    }
    if (!closed && !m_wake_awaited) {
      m_chains.await_wake(m_wake.get(), m_wake_word);
      m_wake_awaited = true;
    }
    wait();
  }
}

/// Ends every job with this status until the request queue is closed.
void UringWorker::refuse_all(Status why) {
  FetchJob job;
  while (!m_desk.closed()) {
    if (!m_desk.take(job, m_desk.soon())) continue;
    report(job, m_desk.cancelled(job) ? Status{StatusCode::cancelled, 0} : why, {});
    hand_over();
  }
}

/// True if a job was taken: there may be more.
bool UringWorker::take_jobs() {
  FetchJob job;
  if (m_free.empty() || !next_job(job)) return false;
  start(job);
  return true;
}

bool UringWorker::next_job(FetchJob& job) {
  if (!m_holding) {
    if (m_desk.empty() || !m_desk.take(m_held, {0})) return false;
    m_held_turn = m_desk.turn_of(m_held);
    m_holding = true;
  }
  if (m_held_turn != 0 && !m_desk.cancelled(m_held) && m_desk.timing().clock->now() < m_held_turn) return false;
  m_holding = false;
  job = m_held;
  return true;
}

void UringWorker::wait() {
  constexpr auto idle = to_nanoseconds(JobDesk::idle_seconds);
  Nanoseconds longest = idle;
  if (m_holding) longest = std::clamp<Nanoseconds>(m_held_turn - m_desk.timing().clock->now(), 0, idle);
  if (!m_free.empty() && !m_holding) {
    m_waiting.store(true);
    // A job that came before the store found no thread to wake.
    if (!m_desk.empty()) longest = 0;
  }
  m_ring.wait(std::chrono::nanoseconds(longest));
  m_waiting.store(false, std::memory_order_relaxed);
  io_uring_cqe* completion = nullptr;
  while (io_uring_peek_cqe(m_ring.get(), &completion) == 0) {
    const io_uring_cqe copy = *completion;
    io_uring_cqe_seen(m_ring.get(), completion);
    handle(copy);
  }
}

void UringWorker::handle(const io_uring_cqe& completion) {
  const UringStep step = UringChains::step_of(completion.user_data);
  if (step == UringStep::wake) m_wake_awaited = false;
  if (step == UringStep::drop) dropped(UringChains::number_of(completion.user_data));
  if (step == UringStep::wake || step == UringStep::drop || step == UringStep::cancel) return;
  UringRead& read = m_reads[UringChains::number_of(completion.user_data)];
  if (step == UringStep::open) read.open_result = completion.res;
  if (step == UringStep::advise) {
    if (read.open_result >= 0) read.open_result = completion.res;  // what takes no advice is no file to read from
    if (completion.res >= 0) opened(read);
  }
  if (step == UringStep::read) read.read_result = completion.res;
  if (--read.pending == 0) settle(read);
}

void UringWorker::start(const FetchJob& job) {
  if (m_desk.cancelled(job)) {
    report(job, {StatusCode::cancelled, 0}, {});
    return;
  }
  const ReadPlan plan = m_access.plan(job.request.extent);
  if (plan.size == 0) {
    report(job, {}, {});
    return;
  }
  const std::span<std::byte> memory = m_desk.pool().memory(job.buffer, plan.size);
  if (memory.size() < plan.size) {
    report(job, {StatusCode::io, ENOMEM}, {});
    return;
  }
  m_access.count(plan.counted);
  const std::uint32_t number = m_free.back();
  m_free.pop_back();
  UringRead& read = m_reads[number];
  read = {};
  read.number = number;
  read.job = job;
  read.plan = plan;
  read.memory = memory;
  issue(read);
}

void UringWorker::finish(UringRead& read, Status status) {
  std::span<const std::byte> bytes;
  if (status.ok()) bytes = read.memory.subspan(read.plan.lead, read.job.request.extent.length);
  report(read.job, status, bytes);
  m_free.push_back(read.number);
}

void UringWorker::report(const FetchJob& job, Status status, std::span<const std::byte> bytes) {
  if (m_finished_count == m_finished.size()) hand_over();
  m_finished[m_finished_count++] = m_desk.completion(job, status, bytes);
}

void UringWorker::hand_over() {
  if (m_finished_count == 0) return;
  // Only a closed request queue refuses them, and then no thread will ask for them.
  static_cast<void>(m_desk.complete(std::span(m_finished).first(m_finished_count)));
  m_finished_count = 0;
}

namespace {

class UringEngine final : public DeskEngine {
 public:
  UringEngine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing) : DeskEngine(std::move(index), options, timing) {
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
      start();
    } catch (const std::exception&) {
      close();
      throw;
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
  void cancel() override {
    m_desk.cancel();
    for (const auto& worker : m_workers) worker->wake_always();
  }

 private:
  /// As of ThreadEngine.
  void start() {
    try {
      for (const auto& worker : m_workers) m_threads.emplace_back([ring = worker.get()] { ring->run(); });
    } catch (const std::exception& error) {
      throw_no_thread(error, fmt::format("{} threads for io_uring", m_workers.size()), "pass --io pread to read with others");
    }
  }

  void close() {
    m_desk.close();
    for (const auto& worker : m_workers) worker->wake_always();
    m_threads.clear();
  }

  std::vector<std::unique_ptr<UringWorker>> m_workers;
  std::vector<std::jthread> m_threads;
};

}  // namespace

std::unique_ptr<FetchEngine> make_uring_engine(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options, Timing timing) {
  return std::make_unique<UringEngine>(std::move(index), options, timing);
}

}  // namespace dsanalyze
