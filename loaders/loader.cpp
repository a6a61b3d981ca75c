#include "loader.hpp"

#include <fmt/format.h>

#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "loader_flow.hpp"
#include "loader_threads.hpp"

namespace dsanalyze {

/// The threads, what they share, and what was given out. After stop() nothing more is prepared, counted or given out.
struct Loader::State {
  State(Parts given_parts, const LoaderOptions& given_options);
  ~State() { stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// An error is found out while the threads that were started still have their stacks: only then does it show that memory is short.
  void start();
  void stop();
  /// Runs a thread's body; what it throws ends the run, after `last`.
  template <typename Body, typename Last>
  void guarded(Body& body, const Last& last);

  LoaderFlow flow;
  LoaderFeeder feeder;
  LoaderReaper reaper;
  LoaderWorkers workers;
  LoaderGpuWorkers gpu_workers;
  std::uint64_t next_sequence = 0;
  SamplerState delivered_state;  ///< guarded by delivered_mutex
  mutable std::mutex delivered_mutex;
  std::vector<std::jthread> threads;
};

Loader::State::State(Parts given_parts, const LoaderOptions& given_options)
    : flow(std::move(given_parts), given_options), feeder(flow), reaper(flow), workers(flow), gpu_workers(flow), delivered_state(flow.options.start) {
  try {
    start();
  } catch (const std::exception&) {
    flow.feeding_ended.store(true);
    stop();
    throw;
  }
}

void Loader::State::start() {
  try {
    for (std::uint32_t i = 0; i < flow.options.workers; ++i) threads.emplace_back([this] { guarded(workers, [] {}); });
    for (std::uint32_t i = 0; i < gpu_workers.threads(); ++i) threads.emplace_back([this] { guarded(gpu_workers, [] {}); });
    threads.emplace_back([this] { guarded(reaper, [this] { flow.close_ready(); }); });
    threads.emplace_back([this] { guarded(feeder, [this] { flow.feeding_ended.store(true); }); });
  } catch (const std::exception& error) {
    throw_no_thread(error, fmt::format("{} loader threads", flow.options.workers + gpu_workers.threads() + 2), "pass fewer --workers");
  }
}

void Loader::State::stop() {
  // Once: a loader that is kept for its batches ends when another one uses the share.
  if (!flow.stopping.exchange(true) && flow.parts.share != nullptr) flow.parts.share->stop();
  if (flow.pool) flow.pool->close();
  flow.notify_all();
  if (threads.size() < std::size_t{flow.options.workers} + gpu_workers.threads() + 2) flow.close_ready();  // no reaper was started that would
  threads.clear();
}

template <typename Body, typename Last>
void Loader::State::guarded(Body& body, const Last& last) {
  try {
    body.run();
  } catch (const std::exception& error) {
    flow.failures.fail(error);
    last();
    flow.notify_all();
  }
}

Loader::Loader(Parts parts, const LoaderOptions& options) {
  if (options.batch_size == 0 || options.workers == 0 || options.prefetch_batches == 0)
    throw UsageError("loader: batch size, workers and prefetch depth must be at least 1");
  const OrderSpec& order = options.start.order;
  if (parts.share != nullptr && (parts.staging != nullptr || order.kind == OrderKind::shards || order.buffers()))
    throw UsageError("loader: a rank's share is of batches without a shuffle buffer that are its own, not a group's");
  const std::uint64_t slots = parts.staging != nullptr ? parts.staging_slots : std::uint64_t{options.prefetch_batches} + options.held_batches;
  check_tags(slots, options.batch_size);
  m_state = std::make_unique<State>(std::move(parts), options);
}

Loader::~Loader() = default;

Status Loader::next(Batch& batch, Deadline deadline) {
  State& s = *m_state;
  for (;;) {
    const auto ticket = s.flow.assembly.completed().ticket();
    if (s.flow.failures.fatal()) return {StatusCode::corrupt, 0};
    if (s.flow.stopping.load()) return {StatusCode::cancelled, 0};
    if (s.flow.assembly.take(s.next_sequence, batch)) {
      ++s.next_sequence;
      const std::scoped_lock lock(s.delivered_mutex);
      s.delivered_state = s.flow.assembly.state_after(batch.sequence);
      return {};
    }
    if (s.flow.assembly.ended_at(s.next_sequence)) return {StatusCode::end, 0};
    if (s.flow.timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
    s.flow.assembly.completed().wait(*s.flow.timing.waiter, ticket, {std::min(deadline.at, s.flow.soon().at)});
  }
}

void Loader::release(ReleaseToken token) {
  if (m_state->flow.pool) static_cast<void>(m_state->flow.pool->release(token).ok());
}
const std::byte* Loader::memory(const Batch& batch) const { return m_state->flow.pool ? m_state->flow.pool->data(batch.token.slot) : nullptr; }
std::uint64_t Loader::gpu_memory(const Batch& batch) const {
  const std::shared_ptr<GpuPrep>& gpu = m_state->flow.parts.gpu;
  return gpu ? gpu->address(batch.token.slot) : 0;
}
void Loader::stop() { m_state->stop(); }

LoaderTotals Loader::totals() const {
  const State& s = *m_state;
  LoaderTotals totals;
  s.feeder.add_to(totals);
  s.reaper.add_to(totals);
  s.workers.add_to(totals);
  s.gpu_workers.add_to(totals);
  totals.waiting_for_prep = s.flow.ready.size() + s.flow.ready_for_gpu.size();
  totals.ready_batches = s.flow.assembly.ready();
  return totals;
}

LoaderTimes Loader::times() const {
  LoaderTimes times;
  m_state->reaper.add_to(times);
  m_state->workers.add_to(times);
  return times;
}

std::vector<EpochTotals> Loader::epochs() const { return m_state->flow.epochs.settled(); }
std::vector<EpochPrepared> Loader::prepared() const { return m_state->flow.epochs.prepared(); }
std::vector<SampleFailure> Loader::failures() const { return m_state->flow.failures.list(); }
std::vector<FailureCount> Loader::failure_counts() const { return m_state->flow.failures.counts(); }
std::uint64_t Loader::failed_samples() const { return m_state->flow.failures.count(); }
std::string Loader::failure() const { return m_state->flow.failures.fatal_message(); }
bool Loader::out_of_memory() const { return m_state->flow.failures.out_of_memory(); }
SamplerState Loader::state() const {
  const std::scoped_lock lock(m_state->delivered_mutex);
  SamplerState state = m_state->delivered_state;
  state.digest = m_state->flow.parts.index->facts().digest;
  return state;
}
Bytes Loader::slot_bytes() const { return m_state->flow.pool ? m_state->flow.pool->bytes() : 0; }
const GpuPrep* Loader::gpu_prep() const { return m_state->flow.parts.gpu.get(); }
std::vector<std::string_view> Loader::operator_names() const { return m_state->flow.parts.prep->operator_names(); }

}  // namespace dsanalyze
