#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/host/host.hpp"
#include "base/process/processes.hpp"
#include "core/records/result.hpp"
#include "core/trace/trace_events.hpp"
#include "loaders/loader.hpp"
#include "windows.hpp"

namespace dsanalyze {

/// Looks at a running loader twenty times a second without stopping it: progress, CPU, memory, storage, hits.
class Observer {
 public:
  Observer(const Loader& loader, std::function<std::optional<Bytes>()> storage_bytes, const HostFacts& host, Timing timing);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Stops looking; the records stay.
  void stop();
  [[nodiscard]] std::vector<ProgressPoint> progress() const;  ///< samples prepared
  [[nodiscard]] std::vector<CpuPoint> cpu() const;
  /// At most 120 points, evenly thinned.
  [[nodiscard]] std::vector<TimelineRecord> timeline() const;
  /// What others took of the CPU meanwhile. Once stopped.
  [[nodiscard]] BackgroundLoad others() const;
  /// What a trace draws: every look.
  [[nodiscard]] std::vector<TraceCounter> counters() const;

 private:
  struct Look {
    Nanoseconds at = 0;
    CpuSample cpu;
    Bytes memory = 0;
    std::optional<Bytes> storage;
    LoaderTotals totals;
  };
  void look();

  const Loader& m_loader;
  std::function<std::optional<Bytes>()> m_storage_bytes;
  HostFacts m_host;
  Timing m_timing;
  ProcessWatch m_processes;  ///< the looking thread's, then stop()'s
  std::uint32_t m_looks_until_processes = 0;
  mutable std::mutex m_mutex;
  std::vector<Look> m_looks;
  std::atomic<std::uint32_t> m_stop{0};
  std::jthread m_thread;
};

/// Fills `attained`, and takes out of the stalls what the rates do not explain: where the full run lost more than F, P and G of one server give,
/// beyond the intervals, the rest is interference, with what speaks for its causes. `full`: the full run as that server sees it; `by_rates`: the
/// lowest of F, P and G, and what comes next. Requires result.stalls, F, P and G. Pure.
void find_interference(ProfileResult& result, const RunRecord& full, const BottleneckRule& by_rates);

}  // namespace dsanalyze
