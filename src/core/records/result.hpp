#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "attached_record.hpp"
#include "base/error.hpp"
#include "base/events.hpp"
#include "base/host/host.hpp"
#include "base/statistics.hpp"
#include "base/text/units.hpp"
#include "core/accelerator_utilisation.hpp"
#include "core/rates.hpp"
#include "jobs_record.hpp"
#include "ranks_record.hpp"
#include "settings.hpp"

namespace dsanalyze {

/// "dsanalyze.profile/1" as structs. One record feeds every view: no view computes figures of its own. Fields are only added within a version.

struct ToolRecord {
  std::string name = "dsanalyze";
  std::string version;
  std::string commit;
};
ToolRecord this_tool();

struct RateRecord {
  double samples_per_s = 0;
  double bytes_per_s = 0;
  Interval ci95_samples_per_s;
  std::uint64_t windows = 0;
  std::uint64_t void_windows = 0;        ///< left out: others took more than 2 % of the CPU
  std::string method;                    ///< one sentence: how it was measured
  std::optional<double> cache_fraction;  ///< F only; of ranks, the share of samples that are in a rank's own cache
  std::uint64_t shared_windows = {};     ///< of `windows`, those in which others took that much: where most did, they count
};

/// Half of its 95 % interval, as a share of it. One window has no scatter: its rate is taken for unknown by all of itself, not for exact.
double relative_error(const RateRecord& rate);
/// Its 95 % interval; of one window from 0 to twice the rate.
Interval known_interval(const RateRecord& rate);

struct HostRecord {
  std::string cpu_model;
  double cores = 0;  ///< usable
  int cores_online = 0;
  int cores_physical = 0;  ///< that the allowed CPUs lie on; 0: not known
  Bytes memory_bytes = 0;  ///< usable
  Bytes memory_total_bytes = 0;
  std::string kernel;
  int cgroup_version = 0;
  std::string storage_device;             ///< "vda", "nfs server:/x", "emulated ssd"
  std::string storage_filesystem;         ///< "ext4"
  std::string storage_meter;              ///< what proves the bytes: "block layer and process counters", "none"
  std::string accelerator;                ///< "none", "emulated, 8 x 2000 samples/s"
  bool accelerator_shares_cores = false;  ///< it is the CPU: training and prep take each other's cores
  /// How fast one core was before the runs, by work that no version changes; with real prep only.
  std::optional<double> calibration_passes_per_s{};
};
/// What is known of the machine itself: processor, cores, memory, kernel.
HostRecord machine_record(const HostFacts& host);

struct DatasetRecord {
  std::string path;
  std::string format;
  std::uint64_t samples = 0;
  Bytes bytes = 0;
  double mean_sample_bytes = 0;
  std::string digest;  ///< of the index: names, sizes and labels; in JSON as index_digest, too
  bool sizes_sampled = false;
  std::uint64_t subset_samples = 0;  ///< what the runs used
  Bytes subset_bytes = 0;
  std::optional<std::string> content_sample_digest = {};  ///< of what a few samples hold; absent of emulated datasets and in older results
};

struct EpochRecord {
  std::uint64_t epoch = 0;
  double seconds = 0;
  std::uint64_t samples = 0;
  std::optional<Bytes> storage_bytes;       ///< what reached the device, by the storage meter; absent, as those below, where nothing can tell
  std::optional<Bytes> requested_bytes;     ///< what the loader asked of storage
  std::optional<std::uint64_t> cache_hits;  ///< of several jobs: all of theirs
  std::optional<std::uint64_t> cache_misses;
  std::uint64_t peer_hits = 0;  ///< misses that came from other ranks' caches
  Bytes peer_bytes = 0;
  std::string digest;  ///< of the set of samples used
};

struct TimelineRecord {
  double t_seconds = 0;
  double cpu_fraction = 0;  ///< of the usable CPU time, by this process
  Bytes memory_bytes = 0;
  double storage_bytes_per_s = 0;
  double cache_hit_fraction = 0;
};

struct OperatorRecord {
  std::string name;
  double fraction = 0;                            ///< of the time of all operators
  std::optional<double> seconds_per_sample = {};  ///< busy, on one worker; mean
};

/// How something that differs from sample to sample, or from batch to batch, is distributed.
struct DistributionRecord {
  static constexpr std::size_t points = 101;
  double mean = 0;
  std::uint64_t count = 0;
  std::vector<double> quantiles;         ///< equally spaced, ascending, from the smallest to the largest
  std::optional<double> deviation = {};  ///< standard deviation; absent where values were only counted by size
};

/// Samples of one run that could not be used, by cause.
struct FailureRecord {
  std::string cause;
  std::uint64_t count = 0;
  std::string example;  ///< the first of them
};

/// How well it is known that a cold run read from storage, or that a cached run did not.
enum class StorageProof : std::uint8_t {
  proved,        ///< the kernel counts what this process reads from storage, and was seen to
  corroborated,  ///< counters that others of the mount share, or the page cache, say so, and were seen to tell
  unproved
};
constexpr std::array<const char*, 3> names_of(StorageProof /*type*/) { return {"proved", "corroborated", "unproved"}; }

/// What others than this process took of the CPU time that it may use.
struct BackgroundLoad {
  double cpu_fraction = 0;  ///< of all others, what the hypervisor took among them
  struct Process {
    int pid = 0;
    std::string command;
    double cpu_fraction = 0;
  };
  std::vector<Process> processes;  ///< those that took the most; fewer than there were
};

/// A part of what a run fetched.
struct FetchedRecord {
  Bytes requested_bytes = 0;
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
};

struct RunRecord {
  std::string name;  ///< synthetic, prep, cached, fetch, full
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double epoch_seconds = 0;  ///< mean, first epoch apart
  double seconds = 0;
  std::optional<Bytes> storage_bytes;
  std::optional<StorageProof> storage_proof;  ///< of runs that are cold or cached, on real storage; absent of others and in older results
  Bytes requested_bytes = 0;                  ///< of the whole run, as the two below
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  std::optional<double> cores_used{};             ///< of a launched training: CPU seconds of all its processes, each second of the run
  std::optional<double> device_use_fraction{};    ///< of a launched training: of the run, in which its GPUs computed, by NVML
  std::optional<double> storage_wait_fraction{};  ///< of a launched training: of the run, in which some process of the machine waited for storage
  std::optional<FetchedRecord> beyond_epochs;     ///< of these three, what was fetched for none of `epochs`: fetched_beyond_epochs()
  std::uint64_t samples = 0;
  std::uint64_t samples_failed = 0;
  std::vector<FailureRecord> failures;
  double first_batch_seconds = 0;
  double stall_p50_seconds = 0;  ///< an accelerator's wait for its next batch
  double stall_p99_seconds = 0;
  double stall_epoch_boundary_seconds = 0;                  ///< mean wait for the first batch of an epoch, the first epoch apart
  std::optional<DistributionRecord> stall_seconds;          ///< the waits behind stall_p50 and stall_p99; runs with an accelerator
  std::optional<AcceleratorUtilisation> mlperf_storage_au;  ///< cached and full, with an emulated accelerator
  std::optional<TrainingRecord> training;                   ///< cached and full, where a network learned
  int prefetch_batches = 0;
  int fetch_concurrency = 0;
  int fetch_places = 0;                  ///< reads in flight or waiting for prep at once, at most
  std::uint64_t windows = 0;             ///< behind samples_per_s
  std::uint64_t void_windows = 0;        ///< left out: others took more than 2 % of the CPU
  std::uint64_t shared_windows = {};     ///< of `windows`, those in which others took that much: where most did, they count
  std::optional<BackgroundLoad> others;  ///< while it ran; absent where it was not measured
  Bytes slot_bytes = 0;                  ///< memory of the batch slots
  std::vector<OperatorRecord> prep_operators;
  std::vector<EpochRecord> epochs;
  std::vector<TimelineRecord> timeline;
};

Interval known_interval(const RunRecord& run);
/// What the run fetched for epochs that did not come to their end and so are not among `epochs`: ahead of the batches that training had come to when
/// the run ended. Nothing where an epoch does not say what it fetched, or some were left out of the record.
std::optional<FetchedRecord> fetched_beyond_epochs(const RunRecord& run);

/// The order of the samples, and how well it shuffles them (core/order.hpp, ShuffleQuality; of the first epoch over the subset).
struct OrderRecord {
  std::string kind;  ///< random, sequential, shards
  int shuffle_buffer = 0;
  int readers = 1;
  double mean_displacement = 0;
  double rank_correlation = 0;
  double neighbours = 0;
  double batch_files = 0;
};

struct StallRecord {
  double seconds_per_epoch = 0;  ///< of the whole dataset
  double fraction = 0;
  Interval ci95_fraction;
};

struct BottleneckRecord {
  std::string resource;  ///< gpu, cpu, io
  /// accelerator, prep, storage, cache, network; of a launched training cores, sampler, latency, delivery, launching, starting, outside, too
  std::string detail;
  bool confident = false;
  std::string reason;  ///< a sentence
  std::string next;    ///< the next bottleneck
};

/// What to do in the loader that the user has.
struct LoaderStep {
  std::string loader;  ///< "PyTorch DataLoader", "NVIDIA DALI", "WebDataset"
  std::string text;
};

/// What a change gives, as the models predict it.
struct GainRecord {
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double speedup = 1;    ///< over the training unchanged, as the same models predict it; of a cost of the script's own, over the training as found
  bool at_most = false;  ///< reached only where the change removes all of a cost
  std::string next;      ///< the bottleneck then, words
};

struct AdviceRecord {
  std::string code;
  std::string text;
  std::vector<std::string> evidence;
  std::vector<LoaderStep> steps{};   ///< empty where there is nothing to do in a loader
  std::string file{};                ///< where in the script, of a launched training; empty: nowhere in particular
  int line = 0;                      ///< in `file`
  std::optional<GainRecord> gain{};  ///< of a launched training, where it is predicted
};

/// Prep by the CPU's cores and by a GPU, each alone.
struct PrepServersRecord {
  double cpu_samples_per_s = 0;
  double gpu_samples_per_s = 0;
  double cores = 0;
  double gpu_core_seconds_per_sample = 0;  ///< of the CPU's cores
  double crop_seconds_per_sample = 0;      ///< of the GPU's multiprocessors, which training wants, too
  double left_to_cpu_fraction = 0;         ///< of the GPU's samples: its decoder does not take them
  std::string decoder;

  /// As the formulas take them.
  [[nodiscard]] PrepServers servers() const { return {cpu_samples_per_s, gpu_samples_per_s, cores, gpu_core_seconds_per_sample}; }
};

struct CorePoint {
  int cores = 0;
  double samples_per_s = 0;
  std::optional<Interval> ci95_samples_per_s;
};
struct StoragePoint {
  double request_bytes = 0;
  int concurrency = 0;
  double bytes_per_s = 0;
};

/// Copies to a GPU, each of so many bytes.
struct TransferPoint {
  double copy_bytes = 0;
  int streams = 0;  ///< that copy at once
  bool pinned = false;
  double bytes_per_s = 0;
  std::optional<Interval> ci95_bytes_per_s;
};

/// How batches come to the devices of a mesh: each has its part directly, or device 0 has all and hands the parts on [Parax, section 3.2.3].
enum class MeshFeed : std::uint8_t { direct, broadcast };
constexpr std::array<const char*, 2> names_of(MeshFeed /*type*/) { return {"direct", "broadcast"}; }
struct FeedPoint {
  MeshFeed feed = MeshFeed::direct;
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
};

/// Whether other programs and the training used up the cores in this run, so that workers waited for one. Threads: any.
bool others_leave_no_core(const RunRecord& run, double cores);

struct ProfileResult {
  ToolRecord tool;
  std::string started_utc;  ///< when the profile began, "2026-11-20T21:05:33Z"; empty: not known
  HostRecord host;
  ProfileSettings settings;
  DatasetRecord dataset;
  std::optional<RateRecord> ingestion, prep, cache, storage, fetch;  ///< G, P, C, S, F
  std::optional<RateRecord> network;                                 ///< N, of one server while all do so; of ranks that part the dataset
  std::optional<RateRecord> transfer;                                ///< H, whole batches to the GPUs; where there are real ones
  std::vector<TransferPoint> transfer_by_copy;
  std::vector<FeedPoint> transfer_by_feed;  ///< of a mesh
  std::vector<CorePoint> prep_by_cores;
  std::optional<PrepServersRecord> prep_servers;  ///< where a GPU can prepare
  std::vector<StoragePoint> storage_by_request;
  std::vector<WorkerPoint> prep_by_workers;  ///< of a launched training
  struct Distributions {
    std::optional<DistributionRecord> sample_bytes;     ///< of the subset
    std::optional<DistributionRecord> prep_seconds;     ///< one sample on one worker, all workers busy (run prep)
    std::optional<DistributionRecord> request_seconds;  ///< one read among as many as the run had in flight (run fetch)
  };
  Distributions distributions;
  std::optional<OrderRecord> order;
  std::vector<RunRecord> runs;                     ///< the full run is that of all jobs together
  std::vector<JobRecord> jobs;                     ///< in the full run; empty: one, as any
  std::optional<SharingRecord> sharing;            ///< with `jobs`
  std::vector<SearchTrialRecord> trials;           ///< of a search, in the order in which they were begun
  std::vector<RankRecord> ranks;                   ///< of a job on several servers, in the full run, which is that of all of them together
  std::optional<PartitionRecord> partition;        ///< with `ranks`
  std::vector<std::string> command;                ///< of a launched training; empty: dsanalyze's own loader was measured
  std::optional<LoaderRecord> loader;              ///< with `command`
  std::optional<WaitsRecord> waits;                ///< with `command`
  std::optional<LaunchRecord> launch;              ///< with `command`
  std::optional<FixRecord> fix;                    ///< with `command`: where a change was found that makes it faster
  std::optional<SteadyRecord> predicted_steady{};  ///< with `command`
  std::optional<OwnPrepRecord> own_prep{};         ///< with `command`: where dsanalyze.Loader could take the place of its loader
  std::vector<ScriptCostRecord> script_costs;      ///< with `command`: those that take longest first; may be empty
  std::vector<StageRecord> hot;                    ///< with `command`: of the CPU time of the workers, while the loader was drained; may be empty
  std::optional<ReadsRecord> reads;                ///< with `command`, where what it reads was traced
  struct Stalls {
    StallRecord compute, prep, fetch;
    std::optional<StallRecord> contention = {};    ///< of a launched training: its steps take longer while workers prepare; not in `prep` then
    std::optional<StallRecord> interference = {};  ///< loss that the rates do not explain; taken out of prep and fetch
  };
  std::optional<Stalls> stalls;
  /// What one server trained in the full run, beside what its measured rates give; with `stalls`.
  struct Attained {
    double samples_per_s = 0;
    Interval ci95_samples_per_s;
    double by_rates_samples_per_s = 0;  ///< min(F, P, G)
    Interval ci95_by_rates_samples_per_s;
    std::vector<std::string> evidence;  ///< what speaks for causes of the interference, clauses; empty without it
  };
  std::optional<Attained> attained;
  std::optional<BottleneckRecord> bottleneck;
  struct Observed {
    double samples_per_s = 0;
    double unused_fraction = 0;  ///< of what this machine could feed with our loader
  };
  std::optional<Observed> observed;
  std::vector<AdviceRecord> advice;
  std::vector<Finding> findings;
  bool trusted = false;

  /// What others took of the CPU in those runs whose rates hold with it: the mean; nullopt where none does.
  [[nodiscard]] std::optional<double> shared_cpu() const;
  /// Of a launched training: the fewest workers by which it would be faster by a tenth or more, as P and G have it; nothing where none of those
  /// measured would do so.
  [[nodiscard]] std::optional<WorkerPoint> better_workers() const;
  /// How fast samples reach the GPU by H: what it prepares itself is not copied. Nothing where that is all, or H is not known.
  [[nodiscard]] std::optional<RateRecord> transfer_supply() const;
  /// The measured run of that name, or nullptr.
  [[nodiscard]] const RunRecord* run(const std::string& name) const;
  /// Whether a finding of this code is there.
  [[nodiscard]] bool finds(std::string_view code) const;
  /// Share of the dataset that one server's cache holds: what F says; of ranks, whose F says how often they hit instead, the mean of what those that
  /// finished hold, where their cache never replaces.
  [[nodiscard]] std::optional<double> cache_fraction() const;
};

/// "dsanalyze.dataset/1": what `dataset make|index|info|verify|convert` did or found. Optional fields belong to some of the commands only.
struct DatasetCommandResult {
  struct Failure {
    std::string path;
    std::string cause;
  };
  ToolRecord tool;
  std::string command;  ///< make, index, info, verify, convert
  std::string path;
  std::string format;
  std::uint64_t samples = 0;
  Bytes bytes = 0;
  double mean_sample_bytes = 0;
  std::string digest;                                  ///< of the index; empty where the command makes none
  std::optional<std::string> content_sample_digest{};  ///< info, verify: of what a few samples hold
  bool sizes_sampled = false;
  std::optional<std::uint64_t> labels;
  std::optional<std::uint64_t> skipped;        ///< files that are no samples
  std::optional<std::uint64_t> already_there;  ///< make: samples of an earlier run
  std::optional<std::string> index_file;
  std::optional<std::string> content_digest;  ///< verify
  std::optional<std::uint64_t>
      failed;                     ///< verify: samples that cannot be read, do not decode or have no valid label; convert: those that were left out
  std::vector<Failure> failures;  ///< verify, convert: the first of them; verify: then the damaged files
  std::optional<std::uint64_t> patched;        ///< verify: samples that decode only because libjpeg patched damaged image data
  std::vector<Failure> patched_samples;        ///< the first of them, the cause in libjpeg's words
  std::optional<std::uint64_t> damaged_files;  ///< verify: shards that are torn or whose headers are damaged
  std::optional<std::uint64_t> files;          ///< that hold the samples: shards, arrays, images
  struct Array {
    std::string dtype;
    std::vector<std::uint64_t> shape;  ///< of one sample
  };
  std::optional<Array> array;              ///< of datasets whose samples are arrays
  std::optional<std::string> destination;  ///< convert: where the samples were written; path, format and digest are the source's
  std::optional<std::string> to;           ///< convert: the format written; samples and bytes are what was written
  std::optional<double> seconds;
  std::vector<Finding> findings;
};

// JSON, in the documented form. from-functions are strict (schema version, required fields, finite numbers, 0 < rates) and throw UsageError that
// names the field; unknown fields are ignored (fields are only added within a version). Keys that are always there hold null for what is not known.
std::string to_json(const ProfileResult& result);
std::string to_json(const DatasetCommandResult& result);
/// "dsanalyze.error/1": what a command that failed leaves on stdout under --json.
std::string error_json(ErrorKind kind, const std::string& message, int exit_code);
ProfileResult profile_from_json(std::string_view text, const std::string& source);

}  // namespace dsanalyze
