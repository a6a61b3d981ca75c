#include <algorithm>

#include "base/host/host.hpp"
#include "core/depths.hpp"
#include "loader_state.hpp"

namespace dsanalyze {
namespace {

/// Nanoseconds a sample; below, reading the clock for each would take a tenth of its time, and the group's mean stands for each.
constexpr Nanoseconds worth_timing = 1000;
constexpr std::size_t most_operators = 8;

/// What one worker leaves for a trace: batches, in them samples, in them operators. Nothing without a track.
class WorkerSpans {
 public:
  WorkerSpans(SpanTrack* track, std::size_t operators) : m_track(track), m_spent(std::min(operators, most_operators)) {}

  [[nodiscard]] bool on() const { return m_track != nullptr; }
  /// For PrepTask::spent.
  [[nodiscard]] std::span<Nanoseconds> spent() { return on() ? std::span(m_times).first(m_spent) : std::span<Nanoseconds>(); }

  void kept(Nanoseconds begin, Nanoseconds end, std::size_t samples) {
    m_track->add({begin, end, 0, static_cast<std::uint32_t>(samples), SpanKind::keep});
    m_kept_until = end;
  }
  /// Operators take turns, row by row; each one's time is one span, one after the other, the last ending with the sample. An emulated core may have
  /// begun before its worker came: then only what the worker saw is shown.
  void sample(Nanoseconds begin, Nanoseconds end, SampleId sample) {
    if (!on()) return;
    Nanoseconds operator_end = end;
    for (std::size_t i = m_spent; i-- > 0;) {
      const Nanoseconds operator_begin = std::max({operator_end - std::exchange(m_times[i], 0), begin, m_kept_until});
      if (operator_begin < operator_end) m_track->add({operator_begin, operator_end, sample, static_cast<std::uint32_t>(i), SpanKind::prep});
      operator_end = operator_begin;
    }
    m_track->add({begin, end, sample, 0, SpanKind::sample});
  }
  void batch(Nanoseconds begin, Nanoseconds end, std::uint64_t sequence, std::uint32_t samples) {
    if (on()) m_track->add({begin, end, sequence, samples, SpanKind::batch});
  }

 private:
  SpanTrack* m_track;
  std::size_t m_spent;
  std::array<Nanoseconds, most_operators> m_times{};
  Nanoseconds m_kept_until = 0;
};

}  // namespace

void Loader::State::work() {
  const std::uint32_t worker = workers_started.fetch_add(1);
  if (!options.worker_cpus.empty()) set_thread_affinity(options.worker_cpus);
  Prep& prep = *preps[worker];
  StageCounter& counter = prep_counters[worker];
  std::array<LoaderWork, worker_group> items;
  std::array<CacheLookup, worker_group> used;
  std::vector<std::byte> scratch;
  WorkerSpans spans(worker_tracks[worker], parts.prep->operator_names().size());
  bool each_timed = true;
  Nanoseconds idle_since = timing.clock->now();
  for (;;) {
    const std::size_t count = ready.pop(items, soon(), std::size_t{options.workers} * 2);
    if (count == 0) {
      if (ready.closed()) return;
      continue;
    }
    const Nanoseconds begun = timing.clock->now();
    counter.add_waiting(begun - idle_since);
    // The cache first: the next epoch waits for it, and a second worker may need the item.
    std::size_t kept = 0;
    for (const LoaderWork& item : std::span(items).first(count)) kept += keep(item) ? 1 : 0;
    if (kept > 0 && spans.on()) spans.kept(begun, timing.clock->now(), kept);
    std::size_t hit_count = 0;
    std::size_t prepared = 0;
    std::uint32_t of_entry = 0;
    Nanoseconds item_begun = begun;
    Nanoseconds sample_begun = begun;  // what failed before a sample is part of its time: workers over the mean time is their rate
    Nanoseconds entry_begun = begun;
    for (std::size_t i = 0; i < count; ++i) {
      const LoaderWork& item = items[i];
      if (!over()) {
        const bool good = prepare(item, prep, scratch, counter, spans.spent());
        prepared += good ? 1 : 0;
        ++of_entry;
        if (each_timed || spans.on()) {
          const Nanoseconds now = timing.clock->now();
          if (each_timed && good) prep_times[worker].add(now - std::exchange(sample_begun, now));
          spans.sample(std::exchange(item_begun, now), now, item.sample);
        }
      }
      give_back(item);
      if (item.hit.decision == CacheDecision::hit) used[hit_count++] = item.hit;
      const bool entry_ends = i + 1 == count || items[i + 1].entry != item.entry;
      if (entry_ends && of_entry > 0) {
        spans.batch(std::exchange(entry_begun, item_begun), item_begun, assembly.draw(item.entry).sequence, of_entry);
        finish(item.entry, std::exchange(of_entry, 0));
      }
    }
    room.notify(*timing.waiter, 1);  // once for the group: the feeder's requests, and what wakes at their ends, come in groups too
    if (hit_count > 0) parts.cache->release(std::span(used).first(hit_count));
    idle_since = timing.clock->now();
    counter.add(prepared, prepared * tensor.sample_bytes(), idle_since - begun);
    if (prepared == 0) continue;
    if (!each_timed) prep_times[worker].add_mean(idle_since - begun, prepared);
    each_timed = idle_since - begun >= worth_timing * static_cast<Nanoseconds>(prepared);
  }
}

bool Loader::State::keep(const LoaderWork& item) {
  if (item.keep != LoaderWork::Keep::in_cache || !awaited.claim(item.sample)) return false;
  if (item.status.ok()) {
    static_cast<void>(parts.cache->store(item.sample, item.bytes).ok());  // an item that is not kept is fetched again
  } else {
    parts.cache->abandon(item.sample);
  }
  settle(1);
  return true;
}

bool Loader::State::prepare(const LoaderWork& item, Prep& prep, std::vector<std::byte>& scratch, StageCounter& counter,
                            std::span<Nanoseconds> spent) {
  std::span<const std::byte> encoded = item.bytes;
  if (item.hit.decision == CacheDecision::hit) {
    if (item.hit.contiguous == nullptr && scratch.size() < item.hit.length) scratch.resize(item.hit.length);
    encoded = parts.cache->read(item.hit, scratch);
  }
  const auto output = assembly.sample(item.entry, item.position);
  Status status = item.status;
  if (status.ok() && encoded.empty()) status = corrupt(Corruption::empty);
  if (status.ok()) status = prep.prepare({encoded, item.sample, assembly.generation(item.entry), item.ready, output, spent});
  if (!status.ok()) {
    counter.add_failure();
    assembly.mark_failed(item.entry, item.position);
    failures.add(item.sample, status);
    if (failures.fatal()) notify_all();
  }
  return status.ok();
}

void Loader::State::give_back(const LoaderWork& item) {
  if (item.buffer.id == FetchBuffer::none) return;
  parts.engine->release({&item.buffer, 1});
}

void Loader::State::finish(std::uint32_t entry, std::uint32_t done) {
  if (!assembly.finish(entry, done, timing.clock->now())) return;
  epochs.finished(assembly.draw(entry).epoch, assembly.digest(entry), assembly.drawn(entry), assembly.finished(entry).failed);
  if (parts.staging != nullptr) {
    const BatchAssembly::Finished batch = assembly.finished(entry);
    parts.staging->publish(claims[entry], {batch.good, batch.failed, batch.ready_at});
    return;
  }
  assembly.publish(entry);
  assembly.completed().notify(*timing.waiter, 1);
}

}  // namespace dsanalyze
