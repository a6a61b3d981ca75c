#include "dsanalyze/loaders/loader.hpp"

#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "batch_assembly.hpp"
#include "dsanalyze/base/bounded_queue.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/host.hpp"
#include "dsanalyze/loaders/slot_pool.hpp"
#include "epoch_ledger.hpp"
#include "failure_ledger.hpp"

namespace dsanalyze {
namespace {

constexpr double look_up_seconds = 0.25;  // how often a waiting thread looks whether it should end
constexpr double drain_seconds = 5;       // longest wait for fetches under way when the loader stops
constexpr std::size_t fetch_group = 64;
constexpr std::size_t worker_group = 32;

enum class Keep : std::uint8_t { no, in_cache };

/// One sample whose bytes are there (or whose fetch failed), on its way to a worker.
struct Work {
  CacheLookup hit;
  std::span<const std::byte> bytes;  // of a miss, in `buffer`
  FetchBuffer buffer;
  Status status;
  std::uint32_t entry = 0;
  std::uint32_t position = 0;
  SampleId sample = 0;
  Nanoseconds ready = 0;
};

/// A fetch's tag: which batch entry, which position, and whether the cache wants the bytes.
struct Tag {
  std::uint32_t entry;
  std::uint32_t position;
  Keep keep;
  [[nodiscard]] std::uint64_t packed() const {
    return (std::uint64_t{entry} << 33) | (std::uint64_t{position} << 1) | (keep == Keep::in_cache ? 1U : 0U);
  }
  static Tag unpack(std::uint64_t tag) {
    return {static_cast<std::uint32_t>(tag >> 33), static_cast<std::uint32_t>(tag >> 1), (tag & 1U) != 0 ? Keep::in_cache : Keep::no};
  }
};

}  // namespace

struct Loader::State {
  State(Parts given_parts, const LoaderOptions& given_options)
      : parts(std::move(given_parts)),
        options(given_options),
        timing(parts.timing),
        sampler(options.start, options.batch_size * options.slices),
        pool(options.prefetch_batches + options.held_batches, parts.prep->tensor(options.batch_size), timing),
        assembly(pool, options.batch_size, parts.prep->tensor(options.batch_size)),
        ready(std::size_t{pool.slots()} * options.batch_size, timing),
        epochs(*parts.engine, parts.storage_bytes),
        failures(*parts.index, options.on_error, options.error_budget),
        prep_counters(options.workers),
        delivered_state(options.start) {
    for (std::uint32_t i = 0; i < options.workers; ++i) preps.push_back(parts.prep->make());
    threads.emplace_back([this] { feed(); });
    threads.emplace_back([this] { reap(); });
    for (std::uint32_t i = 0; i < options.workers; ++i) threads.emplace_back([this, i] { work(i); });
  }

  ~State() {
    stop();
    threads.clear();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void stop() {
    stopping.store(true);
    pool.close();
    for (Signal* signal : {&room, &settled, &assembly.completed()}) signal->notify(*timing.waiter, 1 << 20);
  }
  [[nodiscard]] bool over() const { return stopping.load(std::memory_order_relaxed) || failures.fatal(); }
  [[nodiscard]] Deadline soon() const { return timing.clock->after(look_up_seconds); }

  // ---- feeder: ids -> cache lookup -> ready queue or fetch engine

  void feed() {
    std::vector<CacheAccess> accesses(options.batch_size);
    std::vector<CacheLookup> lookups(options.batch_size);
    std::vector<Work> hits(options.batch_size);
    std::uint64_t sequence = 0;
    std::uint64_t step = 0;
    std::uint64_t current_epoch = options.start.epoch;
    epochs.begin(current_epoch);
    while (!over()) {
      if (options.epochs > 0 && sampler.state().epoch >= options.start.epoch + options.epochs) break;
      if (sampler.state().epoch != current_epoch) {
        if (!wait_settled()) break;
        epochs.settle(current_epoch, timing.clock->now());
        current_epoch = sampler.state().epoch;
        epochs.begin(current_epoch);
      }
      std::uint64_t epoch = 0;
      bool last = false;
      const SamplerState before = sampler.state();
      const auto global = sampler.next(epoch, last);
      const auto slices = std::min<std::uint32_t>(options.slices, static_cast<std::uint32_t>(global.size()));
      for (std::uint32_t slice = 0; slice < slices; ++slice) {
        ReleaseToken token;
        while (!pool.acquire(token, soon())) {
          if (over()) break;
        }
        if (over()) break;
        const bool ends_step = slice + 1 == slices;
        const auto ids = Assignment::slice(global, static_cast<int>(slice), static_cast<int>(slices));
        const std::uint32_t entry = assembly.begin(
            {token, sequence++, step, slice, slices, epoch, last && ends_step, ends_step ? sampler.state() : before}, ids, *parts.index);
        for (std::size_t i = 0; i < ids.size(); ++i) accesses[i] = {ids[i], (*parts.index)[ids[i]].length, 0, 0};
        const auto drawn = std::span(lookups).first(ids.size());
        parts.cache->lookup(std::span(accesses).first(ids.size()), drawn);
        dispatch(entry, epoch, ids, drawn, hits);
      }
      ++step;
    }
    if (wait_settled()) epochs.settle(current_epoch, timing.clock->now());
    feeding_ended.store(true);
    assembly.close(sequence);
    assembly.completed().notify(*timing.waiter, 1 << 20);
  }

  void dispatch(std::uint32_t entry, std::uint64_t epoch, std::span<const SampleId> ids, std::span<const CacheLookup> lookups,
                std::vector<Work>& hits) {
    std::size_t hit_count = 0;
    const Nanoseconds now = timing.clock->now();
    for (std::uint32_t i = 0; i < ids.size(); ++i) {
      if (lookups[i].decision == CacheDecision::hit) hits[hit_count++] = {lookups[i], {}, {}, {}, entry, i, ids[i], now};
    }
    epochs.count(epoch, hit_count, ids.size() - hit_count);
    hit_total.fetch_add(hit_count, std::memory_order_relaxed);
    miss_total.fetch_add(ids.size() - hit_count, std::memory_order_relaxed);
    if (hit_count > 0) ready.push(std::span(hits).first(hit_count), soon());  // the queue has room for every slot's samples

    std::array<FetchRequest, fetch_group> group;
    std::size_t grouped = 0;
    for (std::uint32_t i = 0; i < ids.size(); ++i) {
      if (lookups[i].decision == CacheDecision::hit) continue;
      const Keep keep = lookups[i].decision == CacheDecision::admit ? Keep::in_cache : Keep::no;
      group[grouped++] = {Tag{entry, i, keep}.packed(), ids[i], (*parts.index)[ids[i]].extent()};
      if (grouped == std::min(fetch_group, parts.engine->capacity())) submit(group, grouped);
    }
    submit(group, grouped);
  }

  void submit(std::span<const FetchRequest> group, std::size_t& grouped) {
    std::span<const FetchRequest> left = group.first(grouped);
    grouped = 0;
    while (!left.empty()) {
      const auto ticket = room.ticket();
      const std::size_t fits = over() ? 0 : std::min(left.size(), parts.engine->free_places());
      if (fits > 0) {
        unsettled.fetch_add(fits, std::memory_order_acq_rel);
        if (parts.engine->submit(left.first(fits)).ok()) {
          left = left.subspan(fits);
          continue;
        }
        unsettled.fetch_sub(fits, std::memory_order_acq_rel);
      }
      if (over()) return abandon(left);
      const Nanoseconds begun = timing.clock->now();
      room.wait(*timing.waiter, ticket, soon());
      feed_counter.add_waiting(timing.clock->now() - begun);
    }
  }

  void abandon(std::span<const FetchRequest> requests) {
    for (const auto& request : requests) {
      if (Tag::unpack(request.tag).keep == Keep::in_cache) parts.cache->abandon(request.sample);
    }
  }

  bool wait_settled() {
    while (unsettled.load(std::memory_order_acquire) > 0) {
      if (over()) return false;
      const auto ticket = settled.ticket();
      if (unsettled.load(std::memory_order_acquire) > 0) settled.wait(*timing.waiter, ticket, soon());
    }
    return !over();
  }

  // ---- reaper: completions -> cache -> ready queue

  void reap() {
    std::array<FetchCompletion, fetch_group> completions;
    std::array<Work, fetch_group> works;
    Deadline drained{INT64_MAX};
    for (;;) {
      if (over() || feeding_ended.load()) {
        if (unsettled.load(std::memory_order_acquire) == 0 && feeding_ended.load()) break;
        if (drained.at == INT64_MAX && over()) drained = timing.clock->after(drain_seconds);
        if (timing.clock->now() >= drained.at) break;
      }
      const std::size_t count = parts.engine->reap(completions, over() ? timing.clock->after(0.01) : soon());
      if (count == 0) continue;
      for (std::size_t i = 0; i < count; ++i) works[i] = take(completions[i]);
      ready.push(std::span(works).first(count), soon());
      unsettled.fetch_sub(count, std::memory_order_acq_rel);
      settled.notify(*timing.waiter, 1);
    }
    ready.close();
  }

  Work take(const FetchCompletion& completion) {
    const Tag tag = Tag::unpack(completion.tag);
    if (completion.status.ok()) {
      fetch_counter.add(1, completion.bytes.size(), 0);
      if (tag.keep == Keep::in_cache) static_cast<void>(parts.cache->store(completion.sample, completion.bytes).ok());
    } else {
      fetch_counter.add_failure();
      if (tag.keep == Keep::in_cache) parts.cache->abandon(completion.sample);
    }
    return {{}, completion.bytes, completion.buffer, completion.status, tag.entry, tag.position, completion.sample, completion.done_at};
  }

  // ---- workers: bytes -> prepared sample in its slot

  void work(std::uint32_t worker) {
    if (!options.worker_cpus.empty()) set_thread_affinity(options.worker_cpus);
    Prep& prep = *preps[worker];
    StageCounter& counter = prep_counters[worker];
    std::array<Work, worker_group> works;
    std::array<CacheLookup, worker_group> used;
    std::vector<std::byte> scratch;
    Nanoseconds idle_since = timing.clock->now();
    for (;;) {
      const std::size_t count = ready.pop(works, soon(), std::size_t{options.workers} * 2);
      if (count == 0) {
        if (ready.closed()) return;
        continue;
      }
      const Nanoseconds begun = timing.clock->now();
      counter.add_waiting(begun - idle_since);
      std::size_t hits = 0;
      std::uint32_t group_size = 0;
      std::uint64_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const Work& work = works[i];
        bytes += process(work, prep, scratch, counter);
        if (work.hit.decision == CacheDecision::hit) used[hits++] = work.hit;
        const bool group_ends = i + 1 == count || works[i + 1].entry != work.entry;
        ++group_size;
        if (group_ends) finish(work.entry, std::exchange(group_size, 0));
      }
      if (hits > 0) parts.cache->release(std::span(used).first(hits));
      idle_since = timing.clock->now();
      counter.add(count, bytes, idle_since - begun);
    }
  }

  std::uint64_t process(const Work& work, Prep& prep, std::vector<std::byte>& scratch, StageCounter& counter) {
    std::span<const std::byte> encoded = work.bytes;
    if (work.hit.decision == CacheDecision::hit) {
      if (work.hit.contiguous == nullptr && scratch.size() < work.hit.length) scratch.resize(work.hit.length);
      encoded = parts.cache->read(work.hit, scratch);
    }
    Status status = work.status;
    const auto output = assembly.sample(work.entry, work.position);
    if (status.ok() && !over()) status = prep.prepare({encoded, work.sample, assembly.generation(work.entry), work.ready, output});
    if (!status.ok()) {
      counter.add_failure();
      assembly.mark_failed(work.entry, work.position);
      failures.add(work.sample, status);
      if (failures.fatal()) assembly.completed().notify(*timing.waiter, 1 << 20);
    }
    if (work.buffer.id != FetchBuffer::none) {
      parts.engine->release({&work.buffer, 1});
      room.notify(*timing.waiter, 1);
    }
    return output.size();
  }

  void finish(std::uint32_t entry, std::uint32_t done) {
    if (!assembly.finish(entry, done, timing.clock->now())) return;
    const auto& batch = assembly.draw(entry);
    epochs.finished(batch.epoch, assembly.digest(entry), assembly.drawn(entry));
    failures.drew(assembly.drawn(entry));
    assembly.publish(entry);
    assembly.completed().notify(*timing.waiter, 1);
  }

  Parts parts;
  LoaderOptions options;
  Timing timing;
  Sampler sampler;
  SlotPool pool;
  BatchAssembly assembly;
  BoundedQueue<Work> ready;
  EpochLedger epochs;
  FailureLedger failures;
  std::vector<std::unique_ptr<Prep>> preps;
  std::vector<StageCounter> prep_counters;
  StageCounter fetch_counter;
  StageCounter feed_counter;
  std::atomic<std::uint64_t> hit_total{0};
  std::atomic<std::uint64_t> miss_total{0};
  std::atomic<std::size_t> unsettled{0};
  std::atomic<bool> stopping{false};
  std::atomic<bool> feeding_ended{false};
  Signal room;
  Signal settled;
  std::uint64_t next_sequence = 0;
  SamplerState delivered_state;
  mutable std::mutex delivered_mutex;
  std::vector<std::jthread> threads;  // last: joined before anything else goes
};

Loader::Loader(Parts parts, const LoaderOptions& options) {
  if (options.batch_size == 0 || options.workers == 0 || options.prefetch_batches == 0)
    throw UsageError("loader: batch size, workers and prefetch depth must be at least 1");
  m_state = std::make_unique<State>(std::move(parts), options);
}

Loader::~Loader() = default;

Status Loader::next(Batch& batch, Deadline deadline) {
  State& s = *m_state;
  for (;;) {
    const auto ticket = s.assembly.completed().ticket();
    if (s.failures.fatal()) return {StatusCode::corrupt, 0};
    if (s.assembly.take(s.next_sequence, batch)) {
      ++s.next_sequence;
      const std::scoped_lock lock(s.delivered_mutex);
      s.delivered_state = s.assembly.state_after(batch.sequence);
      return {};
    }
    if (s.stopping.load()) return {StatusCode::cancelled, 0};
    if (s.assembly.ended_at(s.next_sequence)) return {StatusCode::end, 0};
    if (s.timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
    s.assembly.completed().wait(*s.timing.waiter, ticket, {std::min(deadline.at, s.soon().at)});
  }
}

void Loader::release(ReleaseToken token) { static_cast<void>(m_state->pool.release(token).ok()); }
std::byte* Loader::memory() const { return m_state->pool.segment().data(); }
void Loader::stop() { m_state->stop(); }

LoaderTotals Loader::totals() const {
  const State& s = *m_state;
  LoaderTotals totals;
  totals.fetch = s.fetch_counter.totals();
  totals.fetch.waiting = s.feed_counter.totals().waiting;
  for (const auto& counter : s.prep_counters) totals.prep += counter.totals();
  totals.hits = s.hit_total.load(std::memory_order_relaxed);
  totals.misses = s.miss_total.load(std::memory_order_relaxed);
  totals.operator_times.resize(s.parts.prep->operator_names().size());
  for (const auto& prep : s.preps) {
    const auto times = prep->operator_times();
    for (std::size_t i = 0; i < times.size() && i < totals.operator_times.size(); ++i) totals.operator_times[i] += times[i];
  }
  return totals;
}

std::vector<EpochTotals> Loader::epochs() const { return m_state->epochs.settled(); }
std::vector<SampleFailure> Loader::failures() const { return m_state->failures.list(); }
std::uint64_t Loader::failed_samples() const { return m_state->failures.count(); }
std::string Loader::failure() const { return m_state->failures.fatal_message(); }
SamplerState Loader::state() const {
  const std::scoped_lock lock(m_state->delivered_mutex);
  return m_state->delivered_state;
}
Bytes Loader::slot_bytes() const { return m_state->pool.segment().size(); }
std::vector<std::string_view> Loader::operator_names() const { return m_state->parts.prep->operator_names(); }

}  // namespace dsanalyze
