#include <algorithm>

#include "base/host/host.hpp"
#include "core/depths.hpp"
#include "loader_threads.hpp"

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

LoaderWorkers::LoaderWorkers(LoaderFlow& flow)
    : m_flow(flow), m_counters(flow.options.workers), m_times(flow.options.workers), m_tracks(flow.options.workers) {
  for (std::uint32_t i = 0; i < flow.options.workers; ++i) m_preps.push_back(flow.parts.prep->make());
  if (flow.parts.spans == nullptr) return;
  for (SpanTrack*& track : m_tracks) track = &flow.parts.spans->make_track(SpanTrack::Role::prep_worker);
}

void LoaderWorkers::add_to(LoaderTotals& totals) const {
  for (const auto& counter : m_counters) totals.prep += counter.totals();
  totals.operator_times.resize(m_flow.parts.prep->operator_names().size());
  for (const auto& prep : m_preps) {
    const auto times = prep->operator_times();
    for (std::size_t i = 0; i < times.size() && i < totals.operator_times.size(); ++i) totals.operator_times[i] += times[i];
  }
}

void LoaderWorkers::add_to(LoaderTimes& times) const {
  for (const DurationHistogram& worker : m_times) times.prep += worker.counts();
}

void LoaderWorkers::run() {
  const std::uint32_t worker = m_started.fetch_add(1);
  if (!m_flow.options.worker_cpus.empty()) set_thread_affinity(m_flow.options.worker_cpus);
  if (m_flow.parts.gpu) yield_to_other_threads();  // those that give the GPU its work need little time, but soon
  Prep& prep = *m_preps[worker];
  StageCounter& counter = m_counters[worker];
  std::array<LoaderWork, worker_group> items;
  std::array<CacheLookup, worker_group> used;
  std::vector<std::byte> scratch;
  WorkerSpans spans(m_tracks[worker], m_flow.parts.prep->operator_names().size());
  bool each_timed = true;
  Nanoseconds idle_since = m_flow.timing.clock->now();
  for (;;) {
    const std::size_t count = m_flow.ready.pop(items, m_flow.soon(), std::size_t{m_flow.options.workers} * 2);
    if (count == 0) {
      if (m_flow.ready.closed()) return;
      continue;
    }
    const Nanoseconds begun = m_flow.timing.clock->now();
    counter.add_waiting(begun - idle_since);
    // The cache first: the next epoch waits for it, and a second worker may need the item.
    std::size_t kept = 0;
    for (const LoaderWork& item : std::span(items).first(count)) kept += m_flow.keep(item) ? 1 : 0;
    if (kept > 0 && spans.on()) spans.kept(begun, m_flow.timing.clock->now(), kept);
    std::size_t hit_count = 0;
    std::size_t prepared = 0;
    std::uint32_t of_entry = 0;
    Nanoseconds item_begun = begun;
    Nanoseconds sample_begun = begun;  // what failed before a sample is part of its time: workers over the mean time is their rate
    Nanoseconds entry_begun = begun;
    for (std::size_t i = 0; i < count; ++i) {
      const LoaderWork& item = items[i];
      if (!m_flow.over()) {
        const bool good = prepare(item, prep, scratch, counter, spans.spent());
        prepared += good ? 1 : 0;
        ++of_entry;
        if (each_timed || spans.on()) {
          const Nanoseconds now = m_flow.timing.clock->now();
          if (each_timed && good) m_times[worker].add(now - std::exchange(sample_begun, now));
          spans.sample(std::exchange(item_begun, now), now, item.sample);
        }
      }
      m_flow.give_back(item);
      if (item.hit.decision == CacheDecision::hit) used[hit_count++] = item.hit;
      const bool entry_ends = i + 1 == count || items[i + 1].entry != item.entry;
      if (entry_ends && of_entry > 0) {
        spans.batch(std::exchange(entry_begun, item_begun), item_begun, m_flow.assembly.draw(item.entry).sequence, of_entry);
        m_flow.finish(item.entry, std::exchange(of_entry, 0));
      }
    }
    m_flow.room.notify(*m_flow.timing.waiter, 1);  // once for the group: the feeder's requests, and what wakes at their ends, come in groups too
    if (hit_count > 0) m_flow.parts.cache->release(std::span(used).first(hit_count));
    idle_since = m_flow.timing.clock->now();
    counter.add(prepared, prepared * m_flow.tensor.sample_bytes(), idle_since - begun);
    if (prepared == 0) continue;
    if (!each_timed) m_times[worker].add_mean(idle_since - begun, prepared);
    each_timed = idle_since - begun >= worth_timing * static_cast<Nanoseconds>(prepared);
  }
}

bool LoaderWorkers::prepare(const LoaderWork& item, Prep& prep, std::vector<std::byte>& scratch, StageCounter& counter,
                            std::span<Nanoseconds> spent) {
  Status status;
  const std::span<const std::byte> encoded = m_flow.encoded(item, scratch, status);
  const auto output = m_flow.assembly.sample(item.entry, item.position);
  SampleRoom* const room = m_flow.pool ? &m_flow.pool->room(m_flow.assembly.draw(item.entry).token.slot) : nullptr;
  if (status.ok()) status = prep.prepare({encoded, item.sample, m_flow.assembly.generation(item.entry), item.ready, output, room, spent});
  if (!status.ok()) {
    counter.add_failure();
    m_flow.fail(item, status);
  }
  return status.ok();
}

}  // namespace dsanalyze
