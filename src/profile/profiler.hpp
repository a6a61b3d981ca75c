#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/host/host.hpp"
#include "base/system/files.hpp"
#include "core/gpu.hpp"
#include "core/index.hpp"
#include "core/records/result.hpp"
#include "core/records/settings.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/pipeline.hpp"
#include "ranks/rank_team.hpp"
#include "windows.hpp"

namespace dsanalyze {

/// An accelerator whose rate was measured before the profile, and not by it.
struct MeasuredAccelerator {
  WindowedRate rate;   ///< of one
  std::string method;  ///< what trained, and with what
  bool on_cpu = false;
  std::uint64_t samples = 0;  ///< trained, in so many seconds
  double seconds = 0;
};

/// Everything a profile needs, looked up and opened by the caller.
struct ProfileInputs : LoadInputs {
  std::filesystem::path trace_file;         ///< where to write what the full run asks of its cache (access_trace.hpp); empty: nowhere
  std::filesystem::path trace_events_file;  ///< where to write what every thread did in the full run (trace_events.hpp); empty: nowhere
  /// Starts a process that calls run_group_job_process() with these two descriptors, which it inherits, and returns its number; with jobs
  /// that share. Throws Error.
  std::function<std::int64_t(int line, int report)> start_job;
  RankTeam* team = nullptr;                                   ///< of a job of several ranks: those that this process is one of; outlives the profile
  std::size_t most_trace_events = 1'000'000;                  ///< of that file, at least 10,000; 64 bytes of memory each
  std::string network{};                                      ///< of the workload, in torchvision.models; empty: none of those
  std::optional<MeasuredAccelerator> measured_accelerator{};  ///< with AcceleratorKind::pytorch; settings.accelerator_rate is its rate
  std::vector<std::shared_ptr<Gpu>> gpus{};                   ///< with AcceleratorKind::cuda, one for each device; one GPU may stand for several
  std::optional<ContentSample> contents{};                    ///< of the dataset, for its record; nullopt: not looked at
};

/// What a profile will do, before it does it: a guest announces itself.
struct ProfilePlan {
  std::vector<std::string> runs;          ///< in the order they run
  std::uint64_t most_subset_samples = 0;  ///< the subset may be smaller, by what the pilot measures
  Bytes most_subset_bytes = 0;
  Bytes cache_bytes = 0;           ///< of the whole dataset's cache (unscaled to the subset)
  double cache_fraction = 0;       ///< x
  Bytes memory_bytes = 0;          ///< most that will be held: cache, slots, buffers
  double seconds = 0;              ///< about
  std::vector<std::string> lines;  ///< for people: what is read, evicted, held, for how long
};

/// Resolves what is left open in the settings (workers, cores, cache size, runs) against host and dataset and says what will be done. Reads nothing.
/// Throws UsageError when a demand cannot be met here (cache larger than memory, subset larger than memory, ...).
ProfilePlan plan_profile(ProfileInputs& inputs);

/// How long ranks that are alive are waited for: what one of them does meanwhile may take the whole profile's time.
constexpr double seconds_for_ranks(const ProfileSettings& settings) { return settings.time_budget_seconds * 2 + 120; }

/// Measures the rates and stalls of DESIGN's table: synthetic, prep, cached, fetch, full; differential phases of [DS-Analyzer, section 3.2].
/// Provisional lines go to `events` as each run ends. Advice is left empty (the caller may run models). Throws Error when a run fails, Interrupted
/// when asked to stop.
/// Of several ranks (settings.world, `team`) each calls it, at about the same time: rank 0 measures its server while the others wait, then all make
/// the full run together. The result is whole in the rank that `ranks` begins with, which is 0 unless it was lost: that one tells it, or the next
/// where that is lost before (RankTeam::tells_result()).
ProfileResult run_profile(const ProfileInputs& inputs, const ProfilePlan& plan, EventSink& events, std::stop_token stop, Timing timing);

/// Measures P again and again, from one cache that is filled once: how fast this machine's cores are just now. While something else runs, a probe
/// tells it: a few samples that are prepared in turn beside it, by the CPU's clock. Threads: one at a time.
class PrepGauge {
 public:
  /// Reads the subset into memory as a profile of these inputs would. Throws Error when that fails, Interrupted when asked to stop.
  PrepGauge(const ProfileInputs& inputs, std::stop_token stop, Timing timing);
  ~PrepGauge();
  PrepGauge(const PrepGauge&) = delete;
  PrepGauge& operator=(const PrepGauge&) = delete;

  /// P of so many cores, one worker each, over `seconds`, and what a sample of the probe took meanwhile.
  struct Speed {
    double samples_per_s = 0;  ///< 0: `seconds` were too short
    double probe_seconds = 0;  ///< CPU seconds of one sample; 0: not known
  };
  Speed speed(int cores, double seconds);
  /// The probe alone, from begin to end, on the CPUs that so many cores' workers have. Throws std::system_error when no thread can be made.
  void begin_probe(int cores);
  /// CPU seconds of one sample; 0 when that was too short, or nothing was begun.
  double end_probe();

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// The whole life of the process of one job that shares (`ProfileInputs::start_job`): joins the group at the other end of `line`, trains on its
/// batches, tells what it found, or what went wrong, over `report`. Does not throw.
struct GroupJobEnd {
  bool ok = false;
  std::string untold;  ///< what went wrong, where no process is left to be told over `report`
};
GroupJobEnd run_group_job_process(FileDescriptor line, FileDescriptor report, Timing timing);

}  // namespace dsanalyze
