#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cache_policy/cache_policy.hpp"
#include "core/device.hpp"
#include "core/index.hpp"
#include "core/order.hpp"
#include "core/rates.hpp"
#include "core/records/settings.hpp"
#include "core/storage_cost.hpp"
#include "service_times.hpp"

namespace dsanalyze {

/// Where misses are read from.
struct SimulatedStorage {
  enum class Kind {
    instant,  ///< takes no time
    device,   ///< the recurrence of an emulated disk (core/device.hpp)
    measured  ///< each request keeps one of `concurrency` places for a time drawn from `request_seconds`
  };
  Kind kind = Kind::instant;
  StorageDeviceSpec device;
  ServiceTimes request_seconds;  ///< of requests of the dataset's sizes at that concurrency
  /// Requests that the fetch engine keeps in flight; those that it accepted beyond wait their turn. 0: it hands on all at once (the emulated engine).
  std::uint32_t concurrency = 0;
  /// Samples that may be read, or be read and not prepared yet (FetchEngine::capacity()).
  std::uint32_t fetch_places = 64;
};

struct SimulatedCache {
  enum class Start {
    empty,  ///< the first epoch fills it
    warm    ///< it has seen the epoch before the first
  };
  CacheKind kind = CacheKind::none;
  double fraction = 0;  ///< capacity, as a share of the dataset's bytes
  Start start = Start::empty;
  double copy_bytes_per_s = 0;    ///< what all workers together copy hits out of the cache with; 0: no time beside prep's
  StorageCost storage_cost = {};  ///< ranks samples for a cost-aware MinIO,
  float least_priority = 0;       ///< which admits those of at least this priority (admission_threshold()); 0: whatever comes first
};

struct SimulatedPrep {
  enum class Kind {
    threads,  ///< a worker begins a sample when it comes to it, on the first free core
    emulated  ///< the emulated prep of the loader: a virtual core begins when it and the sample's bytes are there, whenever the worker comes
  };
  Kind kind = Kind::threads;
  std::uint32_t workers = 1;
  std::uint32_t cores = 0;          ///< 0: as many as workers
  ServiceTimes seconds_per_sample;  ///< on one core
};

struct SimulatedAccelerators {
  std::uint32_t count = 1;
  double samples_per_s = 0;  ///< of one; a step of n samples takes n / this. 0: batches are done with at once (the loader alone)
  StepMode step = StepMode::lockstep;
};

/// One job on one server. Everything that the loader's timing depends on; times as numbers.
struct EpochSetup {
  std::uint32_t samples = 0;
  SampleSizes sample_bytes;              ///< drawn for each sample once
  std::span<const IndexRecord> records;  ///< when given, these are the samples: their sizes and files. Must outlive the call
  std::uint32_t samples_per_shard = 0;   ///< without records: a new file after so many, for OrderKind::shards. 0: one file
  OrderSpec order;
  std::uint64_t seed = 1;
  std::uint64_t epochs = 3;
  std::uint32_t batch_size = 256;      ///< of one accelerator
  std::uint32_t prefetch_batches = 4;  ///< beside those that the accelerators hold, as LoaderOptions
  SimulatedStorage storage;
  SimulatedCache cache;
  SimulatedPrep prep;
  SimulatedAccelerators accelerators;

  /// Throws UsageError "epoch simulator: FIELD: ..." for values out of range, no numbers, or that do not go together.
  void validate() const;
};

struct SimulatedEpoch {
  double seconds = 0;  ///< from the end of all steps before it to the end of its own; 0 when those before ended later, on other accelerators
  double samples_per_s = 0;
  double stall_p50_seconds = 0;  ///< how long an accelerator waited for its next batch
  double stall_p99_seconds = 0;
  double stall_seconds = 0;           ///< of all accelerators and batches, per accelerator
  double boundary_stall_seconds = 0;  ///< the longest wait for one of the epoch's first batches
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  Bytes storage_bytes = 0;
};

struct EpochSimulation {
  std::vector<SimulatedEpoch> epochs;
  /// The mean of the epochs between the first, which fills cache and queues, and the last, which need not prepare anything of a next one (of two
  /// epochs, the second). Its stall quantiles are over all of their batches.
  SimulatedEpoch steady;
  double first_batch_seconds = 0;  ///< until the first batch in sequence is prepared: training cannot begin with a later one
  // Shares of the whole run that each was busy.
  double storage_busy = 0;  ///< of a device: its transfer path; of measured requests: its places
  double prep_busy = 0;     ///< of the cores
  double accelerator_busy = 0;
};

/// Above this difference between simulator and closed form it is said.
constexpr double notable_difference = 0.05;

/// Simulates the loader and the trainer of this project, sample by sample: the sampler's order, cache decisions by the policies of core, hits before
/// misses, fetch places, groups that workers take, batches given out in sequence from bounded slots, lockstep or independent accelerators, and the
/// epoch's end, where all fetches settle before the next epoch's first lookup. Pure: the same configuration gives the same result.
/// Not modelled: time that the operating system takes to switch threads, the CPU time of feeder and reaper, failed samples.
EpochSimulation simulate_epochs(const EpochSetup& setup);

/// F, P and G of a configuration, each with its own bounds, and the stalls, as the profiler finds them: each stage is simulated alone, and stalls are
/// differences of time a sample between runs [DS-Analyzer, section 3.2].
struct SimulatedVerdict {
  double fetch = 0;      ///< F: prep and accelerators take no time; infinite when nothing is read and copies are free
  double prep = 0;       ///< P: all samples are hits, accelerators take no time; infinite when prep takes none
  double ingestion = 0;  ///< G; infinite without accelerators
  double cached = 0;     ///< samples/s when all samples are hits
  double full = 0;       ///< samples/s of the configuration, steady state
  StallShares stalls;    ///< of the configuration's time: compute, prep = cached - compute, fetch = full - cached
  BottleneckRule rule;   ///< the lowest of F, P and G
  bool too_close = false;
};

/// `least_difference`: when the two lowest of F, P and G are closer than this fraction, the bottleneck is inconclusive.
SimulatedVerdict simulate_verdict(const EpochSetup& setup, const EpochSimulation& full, double least_difference = 0.02);

}  // namespace dsanalyze
