#include "observer.hpp"

#include <algorithm>

#include "doctor/doctor_context.hpp"

namespace dsanalyze {
namespace {

constexpr double look_seconds = 0.05;
constexpr std::size_t most_timeline_points = 120;
/// A look at every process takes some ten microseconds each: every second or two.
constexpr std::uint32_t looks_between_processes = 40;

}  // namespace

Observer::Observer(const Loader& loader, std::function<std::optional<Bytes>()> storage_bytes, const HostFacts& host, Timing timing)
    : m_loader(loader), m_storage_bytes(std::move(storage_bytes)), m_host(host), m_timing(timing) {
  m_thread = std::jthread([this] {
    Nanoseconds due = m_timing.clock->now();
    while (m_stop.load() == 0) {
      look();
      due = std::max(due + to_nanoseconds(look_seconds), m_timing.clock->now());
      m_timing.waiter->wait(m_stop, 0, {due});
    }
  });
}

Observer::~Observer() { stop(); }

void Observer::stop() {
  if (m_stop.exchange(1) != 0) return;
  m_timing.waiter->wake(m_stop, 1);
  m_thread.join();
  m_looks_until_processes = 0;
  look();
}

void Observer::look() {
  if (m_looks_until_processes == 0) {
    m_processes.look();
    m_looks_until_processes = looks_between_processes;
  }
  --m_looks_until_processes;
  Look look{m_timing.clock->now(), sample_cpu(m_host), resident_memory(), m_storage_bytes ? m_storage_bytes() : std::nullopt, m_loader.totals()};
  const std::scoped_lock lock(m_mutex);
  m_looks.push_back(std::move(look));
}

std::vector<ProgressPoint> Observer::progress() const {
  const std::scoped_lock lock(m_mutex);
  std::vector<ProgressPoint> points;
  points.reserve(m_looks.size());
  for (const Look& look : m_looks) points.push_back({look.at, look.totals.prep.samples});
  return points;
}

std::vector<CpuPoint> Observer::cpu() const {
  const std::scoped_lock lock(m_mutex);
  std::vector<CpuPoint> points;
  points.reserve(m_looks.size());
  for (const Look& look : m_looks) points.push_back({look.at, look.cpu});
  return points;
}

std::vector<TimelineRecord> Observer::timeline() const {
  const std::scoped_lock lock(m_mutex);
  std::vector<TimelineRecord> timeline;
  const std::size_t stride = std::max<std::size_t>(m_looks.size() / most_timeline_points, 4);
  for (std::size_t i = stride; i < m_looks.size(); i += stride) {
    const Look& before = m_looks[i - stride];
    const Look& after = m_looks[i];
    const double seconds = std::max(to_seconds(after.at - before.at), 1e-9);
    TimelineRecord record;
    record.t_seconds = to_seconds(after.at - m_looks.front().at);
    record.cpu_fraction = std::clamp((after.cpu.own_seconds - before.cpu.own_seconds) / (seconds * std::max(m_host.cores_usable, 0.01)), 0.0, 1.0);
    record.memory_bytes = after.memory;
    if (after.storage && before.storage) record.storage_bytes_per_s = static_cast<double>(*after.storage - *before.storage) / seconds;
    const std::uint64_t hits = after.totals.hits - before.totals.hits;
    const std::uint64_t looked_up = hits + after.totals.misses - before.totals.misses;
    record.cache_hit_fraction = looked_up > 0 ? static_cast<double>(hits) / static_cast<double>(looked_up) : 0;
    timeline.push_back(record);
  }
  return timeline;
}

BackgroundLoad Observer::others() const {
  const std::scoped_lock lock(m_mutex);
  if (m_looks.size() < 2) return {};
  return background_load(m_looks.front().cpu, m_looks.back().cpu, m_host, m_processes);
}

std::vector<TraceCounter> Observer::counters() const {
  const std::scoped_lock lock(m_mutex);
  TraceCounter hits{"cache hits, samples", {}};
  TraceCounter waiting{"waiting for prep, samples", {}};
  TraceCounter ready{"ready for accelerators, batches", {}};
  TraceCounter storage{"storage, bytes/s", {}};
  const Look* before = nullptr;
  for (const Look& look : m_looks) {
    hits.points.push_back({look.at, static_cast<double>(look.totals.hits)});
    waiting.points.push_back({look.at, static_cast<double>(look.totals.waiting_for_prep)});
    ready.points.push_back({look.at, static_cast<double>(look.totals.ready_batches)});
    if (before != nullptr && before->storage && look.storage && look.at > before->at)
      storage.points.push_back({look.at, static_cast<double>(*look.storage - *before->storage) / to_seconds(look.at - before->at)});
    before = &look;
  }
  return {hits, waiting, ready, storage};
}

}  // namespace dsanalyze
