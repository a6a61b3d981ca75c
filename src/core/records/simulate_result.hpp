#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "core/cache_policy/cache_replay.hpp"
#include "result.hpp"

namespace dsanalyze {

/// How the accesses came about, when they were made up from a scenario.
struct SimulatedOrders {
  std::string order;  ///< "random", "sequential", "shards"
  std::uint32_t shuffle_buffer = 0;
  std::uint32_t readers = 1;
  std::string job_orders = "own";  ///< or "same"
  double stagger = 0;
  std::uint32_t turn_samples = 1;
  Bytes unit_bytes = 1;
  std::uint64_t seed = 0;
};

/// How long epochs take with one of the caches, by the epoch simulator. Rates in samples/s; those of a stage alone are infinite when it takes no
/// time.
struct PipelineTimes {
  double samples_per_s = 0;
  double epoch_seconds = 0;
  double first_batch_seconds = 0;
  double stall_p50_seconds = 0;  ///< of an accelerator's waits for its next batch
  double stall_p99_seconds = 0;
  double boundary_stall_seconds = 0;  ///< the longest wait for a first batch of an epoch
  double fetch = 0;                   ///< F, P, G: of each stage alone
  double prep = 0;
  double ingestion = 0;
  double prep_stall = 0;  ///< share of the time
  double fetch_stall = 0;
  std::string bottleneck;  ///< "gpu", "cpu", "io"
  bool too_close = false;  ///< to the next one
};

/// The draws of a dependent group, put before several stores of prepared samples.
struct SimulatedDraws {
  std::uint64_t rounds = 0;
  std::uint64_t drawn = 0;             ///< samples, once for each job
  std::uint64_t drawn_by_fastest = 0;  ///< the most that one job drew
  Bytes place_bytes = 0;               ///< of a prepared sample
  struct Store {
    std::string policy;
    std::uint32_t places = 0;
    double fraction = 0;  ///< places over the dataset's samples
    std::uint64_t prepared = 0;
    std::uint64_t from_store = 0;     ///< samples, once for each job
    double prepared_per_sample = 0;   ///< over those drawn
    double prepared_per_fastest = 0;  ///< over those that the fastest job drew
  };
  Store recorded;
  std::vector<Store> stores;
};

/// What `dsanalyze simulate` found: one trace, put before several caches.
struct SimulateResult {
  ToolRecord tool;
  std::string source;       ///< path of the scenario or the trace
  std::string name;         ///< of the scenario; empty for a trace
  std::string description;  ///< the same
  std::uint64_t samples = 0;
  Bytes dataset_bytes = 0;
  std::string digest;  ///< of the dataset, when known
  std::uint32_t jobs = 1;
  std::uint64_t accesses = 0;
  std::optional<SimulatedOrders> orders;  ///< of a scenario
  std::optional<CaseCounts> recorded;     ///< of a trace: what the real cache decided
  std::vector<CaseCounts> cases;
  std::vector<std::optional<PipelineTimes>> times;  ///< of a scenario with a pipeline: of each case, but Belady's optimum, which no loader has
  std::optional<SimulatedDraws> draws;              ///< of a trace of draws, which has neither `recorded` nor `cases`
  std::vector<Finding> findings;
};

/// All epochs of a case but those numbered as its first one, in which the cache fills; nullopt when there are no others.
std::optional<AccessCounts> later_epochs(const CaseCounts& counts);
/// How many epochs these are.
std::uint64_t later_epoch_count(const CaseCounts& counts);
/// Bytes read in an epoch over the dataset's: 1 for a job that finds nothing, up to the number of jobs for several that share nothing
/// [DS-Analyzer, Table 3].
double read_amplification(Bytes bytes_read, std::uint64_t epochs, Bytes dataset_bytes);

std::string to_json(const SimulateResult& result);
/// Strict: throws UsageError that names the field, also for counts that contradict each other. Unknown fields, and shares that follow from the
/// counts, are ignored. CacheCase::least_priority is not recorded.
SimulateResult simulate_from_json(std::string_view text, const std::string& source);

}  // namespace dsanalyze
