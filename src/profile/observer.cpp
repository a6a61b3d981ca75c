#include "observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

namespace {

/// Less of an epoch is not worth a name of its own.
constexpr double least_surplus = 0.02;
/// Others' shares of the CPU that differ by more between two runs make the one's rate no measure of the other.
constexpr double telling_difference = 0.02;
/// Rates this near to each other make stages wait for one another, which the lowest of them does not know.
constexpr double near_rates = 1.15;
constexpr double telling_cpu_share = 0.02;

/// Seconds a sample that the rates explain at most, with each rate at the end of its interval that explains more.
struct Explained {
  double prep = 0;
  double fetch = 0;
};

double loss(double slow, double fast) { return std::max(0.0, 1 / slow - 1 / fast); }

Explained explained_by(const ProfileResult& result) {
  const Interval& g = result.ingestion->ci95_samples_per_s;
  const Interval& p = result.prep->ci95_samples_per_s;
  const Interval& f = result.fetch->ci95_samples_per_s;
  const double prepared = std::min(p.high, g.high);
  return {loss(std::max(p.low, 1e-12), g.high), loss(std::max(std::min(f.low, prepared), 1e-12), prepared)};
}

/// What of a stall is left once its explained part is taken out; nothing where the stall's interval reaches down to that.
double take_surplus(StallRecord& stall, double explained_fraction) {
  if (!(stall.ci95_fraction.low > explained_fraction)) return 0;
  const double surplus = stall.fraction - explained_fraction;
  if (surplus < least_surplus) return 0;
  const double kept = explained_fraction / stall.fraction;
  stall.fraction *= kept;
  stall.seconds_per_epoch *= kept;
  stall.ci95_fraction = {std::max(0.0, stall.ci95_fraction.low - surplus), std::max(0.0, stall.ci95_fraction.high - surplus)};
  return surplus;
}

/// CPU seconds a sample of the run that only read; 0 where none did, or nothing looked.
double read_cpu_seconds(const ProfileResult& result) {
  const RunRecord* fetch = result.run("fetch");
  if (fetch == nullptr || fetch->timeline.empty() || !(fetch->samples_per_s > 0)) return 0;
  double sum = 0;
  for (const TimelineRecord& look : fetch->timeline) sum += look.cpu_fraction;
  return sum / static_cast<double>(fetch->timeline.size()) * result.host.cores / fetch->samples_per_s;
}

void add_reading(const ProfileResult& result, const RunRecord& full, std::vector<std::string>& evidence) {
  if (result.settings.storage != Seam::real || result.settings.prep != Seam::real) return;
  const auto looked_up = static_cast<double>(full.cache_hits + full.cache_misses);
  const double read = looked_up > 0 ? static_cast<double>(full.cache_misses) / looked_up : 1;
  const double seconds = read_cpu_seconds(result);
  const double share = seconds * read * full.samples_per_s / std::max(result.host.cores, 1e-9);
  if (share < telling_cpu_share) return;
  evidence.push_back(fmt::format("reading costs {:.3g} ms of CPU time a sample, {} of the CPU at the full run's rate, which prep then lacks",
                                 1e3 * seconds, format_share(share)));
}

void add_others(const ProfileResult& result, const RunRecord& full, std::vector<std::string>& evidence) {
  if (!full.others) return;
  const RunRecord* quiet = result.run("prep");
  const double before = quiet != nullptr && quiet->others ? quiet->others->cpu_fraction : 0;
  if (full.others->cpu_fraction - before < telling_difference) return;
  evidence.push_back(fmt::format("other processes took {} of the CPU in the full run and {} while P was measured",
                                 format_share(full.others->cpu_fraction), format_share(before)));
}

std::string words(Resource resource) {
  return resource == Resource::gpu ? "the accelerators [G]" : resource == Resource::cpu ? "prep [P]" : "fetch [F]";
}

std::vector<std::string> evidence_for(const ProfileResult& result, const RunRecord& full, const BottleneckRule& by_rates) {
  std::vector<std::string> evidence;
  add_reading(result, full, evidence);
  add_others(result, full, evidence);
  if (result.host.accelerator_shares_cores) evidence.emplace_back("the CPU trains, and takes cores that prep needs");
  if (by_rates.next_samples_per_s < near_rates * by_rates.samples_per_s)
    evidence.push_back(fmt::format("{} and {} are within {} of each other, so that stages wait for one another", words(by_rates.resource),
                                   words(by_rates.next), format_share(by_rates.next_samples_per_s / by_rates.samples_per_s - 1)));
  evidence.emplace_back(evidence.empty() ? "no cause was seen; memory bandwidth and caches of the CPU, which stages share, are not measured"
                                         : "what these leave may be memory bandwidth and caches of the CPU, which are not measured");
  return evidence;
}

/// The end of the lowest of the three intervals, lower or higher.
Interval lowest(const ProfileResult& result) {
  const Interval& g = result.ingestion->ci95_samples_per_s;
  const Interval& p = result.prep->ci95_samples_per_s;
  const Interval& f = result.fetch->ci95_samples_per_s;
  return {std::min({g.low, p.low, f.low}), std::min({g.high, p.high, f.high})};
}

}  // namespace

void find_interference(ProfileResult& result, const RunRecord& full, const BottleneckRule& by_rates) {
  ProfileResult::Stalls& stalls = *result.stalls;
  result.attained = {full.samples_per_s, full.ci95_samples_per_s, by_rates.samples_per_s, lowest(result), {}};
  const double compute_seconds = 1 / result.ingestion->samples_per_s;
  const double whole_seconds = compute_seconds / stalls.compute.fraction;
  const StallRecord before_prep = stalls.prep;
  const StallRecord before_fetch = stalls.fetch;
  const Explained explained = explained_by(result);
  const double surplus = take_surplus(stalls.prep, explained.prep / whole_seconds) + take_surplus(stalls.fetch, explained.fetch / whole_seconds);
  if (surplus <= 0) return;
  const double half = std::hypot(before_prep.ci95_fraction.high - before_prep.fraction, before_fetch.ci95_fraction.high - before_fetch.fraction);
  const auto samples = static_cast<double>(result.dataset.samples);
  stalls.interference =
      StallRecord{surplus * whole_seconds * samples, surplus, {std::clamp(surplus - half, 0.0, 1.0), std::clamp(surplus + half, 0.0, 1.0)}};
  result.attained->evidence = evidence_for(result, full, by_rates);
}

}  // namespace dsanalyze
