#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/units.hpp"
#include "core/batch.hpp"
#include "core/cache_policy/cache_policy.hpp"
#include "core/order.hpp"
#include "core/sharing_modes.hpp"

namespace dsanalyze {

enum class Seam { real, null, emulated };
constexpr std::array<const char*, 3> names_of(Seam /*type*/) { return {"real", "null", "emulated"}; }
/// Where real prep of images runs; split: of each batch, the first samples on the GPU and the others on the CPU's cores.
enum class PrepPlace { cpu, gpu, split };
constexpr std::array<const char*, 3> names_of(PrepPlace /*type*/) { return {"cpu", "gpu", "split"}; }
/// none: not given, so G is not known; pytorch: emulated, at a rate that the user's own PyTorch reached before the profile; cuda: batches go to real
/// GPUs, which steps of a given length occupy
enum class AcceleratorKind { none, null, emulated, cpu, pytorch, cuda };
constexpr std::array<const char*, 6> names_of(AcceleratorKind /*type*/) { return {"none", "null", "emulated", "cpu", "pytorch", "cuda"}; }
enum class Precision { float32, float64 };
constexpr std::array<const char*, 2> names_of(Precision /*type*/) { return {"float", "double"}; }
std::string precision_name(Precision precision);
enum class StepMode { lockstep, independent };
constexpr std::array<const char*, 2> names_of(StepMode /*type*/) { return {"lockstep", "independent"}; }
/// What a job does with a batch before its accelerators have it: nothing (they read it where it lies, by DMA), or one copy by a core.
enum class BatchCopy { none, cpu };
constexpr std::array<const char*, 2> names_of(BatchCopy /*type*/) { return {"none", "cpu"}; }
enum class OnError { skip, fail, substitute };
constexpr std::array<const char*, 3> names_of(OnError /*type*/) { return {"skip", "fail", "substitute"}; }
enum class ReadMode { buffered, direct };
constexpr std::array<const char*, 2> names_of(ReadMode /*type*/) { return {"buffered", "direct"}; }
enum class IoEngine { automatic, pread, uring };  ///< automatic: measured briefly, the faster one is taken
constexpr std::array<const char*, 3> names_of(IoEngine /*type*/) { return {"auto", "pread", "uring"}; }
/// How the jobs of a profile share. It has no unified-producer: that is coordinated, with producers of its own.
inline constexpr std::array profile_sharings = {"none", "coordinated", "dependent"};

/// The data that are read.
struct DatasetSettings {
  std::string dataset;    ///< path as given, or "emulated:NAME"
  std::string image_key;  ///< of tar shards: which members are samples and labels, as given; empty: the default
  std::string label_key;
  std::string workload;  ///< name, or empty
  std::string preset;    ///< server name, or empty
  double scale = 1;      ///< 1000 for --scale 1:1000: divides bytes a sample, cache, slots and bandwidths
};

/// What trains.
struct AcceleratorSettings {
  AcceleratorKind accelerator = AcceleratorKind::none;
  std::string accelerator_name;                    ///< as given: "emulated:2000", "emulated:v100", "cpu:double"
  double accelerator_rate = 0;                     ///< samples/s of one accelerator, when emulated; of pytorch 0 until it has been measured
  std::optional<Precision> accelerator_precision;  ///< of the reference network, when the accelerator is the CPU
  int accelerators = 1;
  int batch_size = 256;  ///< per accelerator
  StepMode step = StepMode::lockstep;
  std::string mesh;                     ///< of devices, "2x2"; empty: a row of `accelerators`
  std::string input_sharding;           ///< with `mesh`: how a batch is divided over it (parse_input_sharding)
  std::optional<double> observed_rate;  ///< what the user's own job reaches, samples/s
};

/// Where samples are read from, and how.
struct StorageSettings {
  Seam storage = Seam::real;
  std::string storage_name;
  double storage_bytes_per_s = 0;  ///< when emulated (unscaled)
  double storage_latency_seconds = 0;
  int storage_queue_depth = 32;
  ReadMode read_mode = ReadMode::buffered;
  IoEngine io = IoEngine::automatic;   ///< in a result: the one that was taken
  int fetch_concurrency = 16;          ///< requests in flight
  double max_storage_bytes_per_s = 0;  ///< 0: no limit
};

struct PrepSettings {
  Seam prep = Seam::real;
  PrepPlace prep_place = PrepPlace::cpu;  ///< of real prep
  double gpu_share = 0;                   ///< of each batch's samples, prepared on the GPU; split: 0 until each profile chooses it
  double prep_rate_per_core = 0;          ///< samples/s, when emulated
  int workers = 0;                        ///< prep threads; 0: auto
  int cores = 0;                          ///< cores that prep may use; 0: all usable (real) or the preset's (emulated)
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
};

struct CacheSettings {
  CacheKind cache = CacheKind::minio;
  std::optional<ByteAmount> cache_size;  ///< nullopt: auto, what free memory holds
  Admission admission = Admission::first;
  std::optional<ByteAmount> memory_limit;  ///< of the kernel's page cache (--cache page), by a cgroup
};

struct OrderSettings {
  static constexpr int default_shuffle_buffer = 1024;

  OrderKind order = OrderKind::random;
  int shuffle_buffer = default_shuffle_buffer;  ///< samples; of sequential and shards orders
  int readers = 1;                              ///< shards that are read alternately, each by its reader
};

/// Several jobs on this server.
struct JobsSettings {
  static constexpr int most_jobs = 64;

  int jobs = 1;                            ///< of this server, each with `accelerators` of its own, at most `most_jobs`
  JobSharing share = JobSharing::none;     ///< none, coordinated or dependent
  Producers producers = Producers::jobs;   ///< of jobs that share; of dependent ones the coordinator
  BatchCopy batch_copy = BatchCopy::none;  ///< of each job; of several jobs
  int trials = 0;                          ///< configurations that a search tries, `jobs` of them at a time; 0: no search
  std::optional<int> stop_at_epochs;  ///< a search: every so many epochs the worse half of the trials ends and others start; nullopt: each runs out
  std::vector<double> job_speeds;     ///< of dependent jobs, one each: factors of an emulated accelerator's rate; empty: all are 1
  std::optional<ByteAmount> staging_size;       ///< of dependent jobs: prepared samples that are kept for later draws; nullopt: none
  std::optional<StagingPolicy> staging_policy;  ///< with staging_size
};

/// Several ranks of one job, a server each.
struct RanksSettings {
  int world = 1;  ///< ranks of the job, one a server, at most `most_ranks` of core/peers.hpp; all that is said of a server is said of each
  PartitionMode partition = PartitionMode::none;
  BalanceFrom balance_from = BalanceFrom::peers;      ///< of locality
  StorageScope storage_scope = StorageScope::server;  ///< whose storage_bytes_per_s is: of each server, or of the one storage that all read from
  Seam network = Seam::real;
  double network_bytes_per_s = 0;  ///< of one server's link, when emulated (unscaled)
};

/// How it is measured.
struct MeasurementSettings {
  std::vector<std::string> runs;  ///< subset of synthetic, prep, cached, fetch, full, in order
  int epochs = 3;                 ///< of the full run, the first apart
  double time_budget_seconds = 180;
  std::optional<ByteAmount> subset;  ///< nullopt: what the time budget allows
  OnError on_error = OnError::skip;
  double error_budget = 0.001;  ///< fraction of the samples that may fail before the run fails
  std::uint64_t seed = 1;
};

/// Every choice of `dsanalyze profile`, resolved: defaults filled in, names looked up. Recorded whole in the result ("settings"), and enough to
/// repeat the run. A function that needs one group of them takes that group. The text forms of the command line are the cli's business.
struct ProfileSettings : DatasetSettings,
                         AcceleratorSettings,
                         StorageSettings,
                         PrepSettings,
                         CacheSettings,
                         OrderSettings,
                         JobsSettings,
                         RanksSettings,
                         MeasurementSettings {
  /// Throws UsageError that names the option for values out of range or that do not go together (mode_rules()).
  void validate() const;
};

/// Several processes take part, or one that is a group of itself.
inline bool runs_jobs(const ProfileSettings& settings) { return settings.jobs > 1 || settings.share != JobSharing::none; }

/// Of a job's accelerators, as a factor of the rate that the settings have.
inline double speed_of_job(const JobsSettings& settings, int job) {
  return settings.job_speeds.empty() ? 1 : settings.job_speeds.at(static_cast<std::size_t>(job));
}
/// Of all jobs together.
double sum_of_job_speeds(const JobsSettings& settings);

/// The full run is that of one rank among several, or of a partition of one.
inline bool runs_ranks(const ProfileSettings& settings) { return settings.world > 1 || settings.partition != PartitionMode::none; }

/// Steps take their time and train nothing.
inline bool emulates_accelerator(const ProfileSettings& settings) {
  return settings.accelerator == AcceleratorKind::emulated || settings.accelerator == AcceleratorKind::pytorch ||
         settings.accelerator == AcceleratorKind::cuda;
}

/// Batches take an accelerator's time, so that G and stalls can be measured.
inline bool trains(const ProfileSettings& settings) { return emulates_accelerator(settings) || settings.accelerator == AcceleratorKind::cpu; }

/// As a result has them under "settings", and back. Throws UsageError that names the field; values out of range are validate()'s matter.
std::string to_json(const ProfileSettings& settings);
/// The keys there in which two runs may differ and still measure the same (may_differ() in fields/settings_fields.hpp).
std::vector<std::string> free_settings();
ProfileSettings settings_from_json(std::string_view text, const std::string& source);

/// One rule of what goes together: the only place; the check, the help page and the tests read it.
struct ModeRule {
  std::string_view mode;          ///< "--cache page"
  std::string_view refused_with;  ///< "--direct"
  std::string_view reason;        ///< and what to use instead
  bool (*applies)(const ProfileSettings& settings);
};
std::span<const ModeRule> mode_rules();
/// The first rule that the settings break.
std::optional<ModeRule> broken_mode_rule(const ProfileSettings& settings);

}  // namespace dsanalyze
