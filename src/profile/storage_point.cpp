#include "storage_point.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace dsanalyze {
namespace {

constexpr std::size_t least_requests = 20;  // or a slow disk's would be noise
constexpr double warm_up_share = 0.25;      // of the time
constexpr double least_share = 0.3;         // of the time must be counted, or a burst would be taken for the pace
constexpr double longest_wait = 4;          // as a multiple of the time
constexpr double drain_seconds = 30;
constexpr std::size_t most_stretches = 20;

}  // namespace

StoragePointRun::StoragePointRun(FetchEngine& engine, const DatasetIndex& requests, int concurrency, double seconds, const std::stop_token& stop,
                                 Timing timing, std::uint64_t first)
    : m_engine(engine),
      m_requests(requests),
      m_concurrency(static_cast<std::size_t>(concurrency)),
      m_seconds(seconds),
      m_stop(stop),
      m_timing(timing),
      m_next(first) {
  run();
}

double StoragePointRun::bytes_per_s() const {
  if (!telling()) return 0;
  Bytes bytes = 0;
  for (const auto& [at, each] : m_counted) bytes += each;
  return static_cast<double>(bytes) / to_seconds(m_last - m_first);
}

std::vector<Stretch> StoragePointRun::stretches() const {
  if (!telling()) return {};
  const std::size_t count = std::min(most_stretches, m_counted.size() / 2);
  std::vector<Stretch> stretches(count, {0, to_seconds(m_last - m_first) / static_cast<double>(count)});
  for (const auto& [at, bytes] : m_counted) {
    const auto place = static_cast<std::size_t>(std::max(to_seconds(at - m_first), 0.0) / stretches.front().seconds);
    stretches[std::min(place, count - 1)].amount += static_cast<double>(bytes);
  }
  return stretches;
}

bool StoragePointRun::enough() const { return m_counted.size() >= least_requests && to_seconds(m_last - m_first) >= m_seconds * (1 - warm_up_share); }

bool StoragePointRun::telling() const { return m_counted.size() >= least_requests && to_seconds(m_last - m_first) >= m_seconds * least_share; }

void StoragePointRun::run() {
  if (m_requests.size() == 0) return;
  const Clock& clock = *m_timing.clock;
  const Nanoseconds counted_from = clock.after(m_seconds * warm_up_share).at;
  const Nanoseconds latest = clock.after(m_seconds * longest_wait).at;
  while (clock.now() < latest && !m_stop.stop_requested() && !enough()) {
    submit();
    reap(m_ended < 2 * m_concurrency ? INT64_MAX : counted_from);  // each buffer is used once before its time counts
  }
  drain();
}

void StoragePointRun::submit() {
  std::array<FetchRequest, FetchEngine::largest_group> group;
  while (m_in_flight < m_concurrency) {
    const std::size_t count = std::min({group.size(), m_concurrency - m_in_flight, m_engine.free_places()});
    for (std::size_t i = 0; i < count; ++i) {
      const auto sample = static_cast<SampleId>((m_next + i) % m_requests.size());
      group[i] = {sample, sample, m_requests[sample].extent()};
    }
    if (count == 0 || !m_engine.submit(std::span(group).first(count)).ok()) return;
    m_next += count;
    m_in_flight += count;
  }
}

/// The first that ends in the counted part starts the count and is not in it.
void StoragePointRun::reap(Nanoseconds counted_from) {
  std::array<FetchCompletion, FetchEngine::largest_group> completions;
  const std::size_t count = m_engine.reap(completions, m_timing.clock->after(0.05));
  for (const FetchCompletion& completion : std::span(completions).first(count)) {
    if (completion.status.ok()) {
      m_bytes += completion.bytes.size();
      if (completion.done_at > counted_from) {
        if (m_first == 0)
          m_first = completion.done_at;
        else
          m_counted.emplace_back(completion.done_at, completion.bytes.size());
        m_last = std::max(m_last, completion.done_at);
      }
    } else if (completion.status.code != StatusCode::cancelled) {
      ++m_failed;
    }
    m_engine.release({&completion.buffer, 1});
  }
  m_in_flight -= count;
  m_ended += count;
}

void StoragePointRun::drain() {
  m_engine.cancel();
  const Nanoseconds latest = m_timing.clock->after(drain_seconds).at;
  while (m_in_flight > 0 && m_timing.clock->now() < latest) reap(INT64_MAX);
}

}  // namespace dsanalyze
