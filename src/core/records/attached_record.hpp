#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// Samples that a training's steps took. One in twenty may have had fewer than the least, as the last batch of an epoch has, and one in twenty more
/// than the most.
struct StepSamplesRecord {
  double least = 0;
  double mean = 0;
  double most = 0;
};

/// Of a batch, from the host's memory to the device that trains.
struct DeviceCopyRecord {
  Bytes bytes = 0;
  double seconds = 0;
  bool pinned = false;
};

/// The loader of a training that `dsanalyze profile -- COMMAND` launched.
struct LoaderRecord {
  enum class Style { map, iterable, watched };  ///< the last: an iterable that the script hands to dsanalyze.watch()
  std::string name;                             ///< "torch.utils.data.DataLoader"; of what is watched, its class
  std::string version;                          ///< of the package
  std::string dataset_class;
  int workers = 0;                ///< processes; 0: the training process prepares by itself
  std::optional<int> prefetch{};  ///< batches that each worker prepares ahead
  bool pin_memory = false;
  bool persistent = false;
  bool made_anew = false;                  ///< for each pass: its workers end with it
  std::optional<int> batch_size{};         ///< absent where a batch sampler decides
  std::optional<std::uint64_t> batches{};  ///< of an epoch
  std::optional<std::uint64_t> samples{};  ///< of the dataset
  Style style = Style::map;
  std::string file{};  ///< where the script makes it
  int line = 0;
  std::optional<StepSamplesRecord> samples_per_step{};  ///< of one rank, over all phases
  std::optional<std::uint64_t> tokens_per_sample{};     ///< where every sample is a row of so many whole numbers
  std::optional<DeviceCopyRecord> device_copy{};
};
constexpr std::array<const char*, 3> names_of(LoaderRecord::Style /*type*/) { return {"map", "iterable", "watched"}; }

/// A part of the mean training step.
struct WaitRecord {
  double seconds_per_step = 0;
  double fraction = 0;
};

/// Where the time of one rank's steps goes, in the full run.
struct RankWaitsRecord {
  int rank = 0;
  WaitRecord data, ranks, compute, outside;
  int cores = 0;       ///< that it may use; 0: not known
  std::string cpus{};  ///< their numbers: "0-3,8"
  std::optional<double>
      supply_seconds_per_step{};  ///< its loader's, for a step's batches, when it is drained: no step of the rank is shorter in the long run
};

/// The mean time from the end of one epoch to the first request for a batch of the next, of the lowest rank.
struct BetweenEpochsRecord {
  std::uint64_t epochs = 0;  ///< ends of epochs that were seen
  double seconds = 0;        ///< of each; the sum of the next three
  double data_seconds = 0;   ///< waiting for the old workers to end and the new ones to start
  double validation_seconds = 0;
  double outside_seconds = 0;               ///< checkpoints, for one
  double first_batch_seconds = 0;           ///< that is waited for then, which steps hold
  std::optional<double> sampler_seconds{};  ///< of these, choosing the samples of the next batches, in the training's own process
  std::optional<std::uint64_t> steps{};     ///< of the last epoch that was seen to end
};

/// The mean step of the full run, in parts that were each measured by themselves.
struct WaitsRecord {
  double step_seconds = 0;
  double data_p99_seconds = 0;  ///< of the waits for a batch
  WaitRecord data;              ///< waiting for a batch
  WaitRecord ranks;             ///< waiting for other ranks
  WaitRecord compute;
  WaitRecord outside;     ///< between the optimizer's step and the next request for a batch
  WaitRecord validation;  ///< of `outside`: loops without gradients
  WaitRecord unexplained;
  std::optional<WaitRecord> sampler{};  ///< of all parts: choosing the samples of batches, in the training's own process
  std::optional<BetweenEpochsRecord> between_epochs{};
  std::optional<int> delaying_rank{};    ///< makes all others wait: what it takes longer for than they do is its part that says why
  std::vector<RankWaitsRecord> by_rank;  ///< where there are several
};

/// The finding that other programs had the cores while P was measured, and not while the training ran as found, or the other way round.
constexpr const char* beside_others_code = "prep-beside-others";

/// What a rank takes longer for than the others do on the average.
enum class RankDelay { data, compute, outside };
/// That of `rank`, which is one of several. Threads: any.
RankDelay delay_of(const std::vector<RankWaitsRecord>& ranks, int rank);
/// Seconds of a step if `rank` took no longer than the slowest of the others, whose loaders then have no time to prepare ahead. Threads: any.
double step_without(const std::vector<RankWaitsRecord>& ranks, int rank);

/// What the loader of a launched training reads, in the full run: calls that read files of the dataset.
struct ReadsRecord {
  std::uint64_t files = 0;  ///< that were read, or mapped into memory
  Bytes file_bytes = 0;     ///< their sizes together
  Bytes bytes = 0;          ///< that calls read of them
  std::uint64_t requests = 0;
  std::uint64_t opens = 0;
  double seconds = 0;         ///< of the windows in which this was counted
  std::uint64_t samples = 0;  ///< that were trained in them
  double bytes_per_sample = 0;
  double requests_per_sample = 0;
  double mean_request_bytes = 0;
  std::optional<double> ordered_fraction{};  ///< of a process's changes from one file to another, those to the next one by name
  std::uint64_t mapped_files = 0;            ///< of `files`, memory-mapped: what is read of them is no call
  Bytes mapped_bytes = 0;                    ///< sizes of these
  std::optional<Bytes> network_bytes{};      ///< received by sockets of the Internet's protocols, by ranks that talk to one another too
  std::optional<Bytes> dataset_bytes{};      ///< what an epoch reads
  std::string dataset_path{};                ///< the deepest folder that holds all files that it read, or the one file; empty: not known
  std::optional<Bytes> page_cache_bytes{};   ///< memory that the page cache may use beside the training's processes
};

/// How many files a training opens for a sample, and how many it has for each of those that it reads in an epoch; 0 where no sample was counted.
struct FilesPerSample {
  double opened = 0;
  double held = 0;
};
FilesPerSample files_per_sample(const ReadsRecord& reads, const LoaderRecord& loader);
/// Whether each sample opens a file that no other sample is in, or several. Parts of several epochs hold fewer files than samples were counted.
bool has_files_of_its_own(const FilesPerSample& files);
/// Whether it is one file.
bool is_one_file_each(const FilesPerSample& files);

/// A part of what makes a loader's batches, of the workers' CPU time.
struct StageRecord {
  std::string name;    ///< "RandomResizedCrop", "train.py:23 augment"
  std::string file{};  ///< of the function
  int line = 0;        ///< where it was found first
  double fraction = 0;
  std::optional<Interval> ci95_fraction{};  ///< by how often the workers were looked at
};

/// What a place of the script takes time for beside the training's own steps, while it runs as found; of the rank where it takes most.
struct ScriptCostRecord {
  enum class What {
    save,       ///< a checkpoint that torch.save() or its like writes
    validation  ///< loops over a loader that trains nothing
  };
  What what = What::save;
  std::string file;  ///< of the call, or where the loader is made
  int line = 0;
  std::uint64_t count = 0;            ///< calls, or loops
  double seconds_each = 0;            ///< mean
  double fraction = 0;                ///< of the training's time, between epochs too
  double waited_fraction = 0;         ///< of its own time: for batches
  std::optional<int> workers{};       ///< of the loader
  double training_samples_per_s = 0;  ///< over the same time: what the training reached with it
};
constexpr std::array<const char*, 2> names_of(ScriptCostRecord::What /*type*/) { return {"save", "validation"}; }

/// What is predicted of a launched training's later epochs, where it read another part of its data from storage while it was measured.
struct SteadyRecord {
  double miss_fraction = 0;  ///< of the samples, those that come from storage then
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double fetch_stall = 0;  ///< of the time
};

/// What dsanalyze's own prep makes of a launched training's image files, from memory.
struct OwnPrepRecord {
  enum class Crop { random_resized, centre };
  double samples_per_s = 0;  ///< on all cores that may be used
  Interval ci95_samples_per_s;
  int threads = 0;
  int crop_size = 0;  ///< pixels of a side
  Crop crop = Crop::random_resized;
  std::uint64_t images = 0;             ///< that were prepared again and again
  std::vector<std::string> left_out{};  ///< what the workers do besides, which it does not
};
constexpr std::array<const char*, 2> names_of(OwnPrepRecord::Crop /*type*/) { return {"random_resized", "centre"}; }

/// P of the launched training's own loader.
struct WorkerPoint {
  int workers = 0;
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  std::optional<double> main_thread_seconds_per_sample{};  ///< CPU time of the thread that takes the batches: collecting
  std::optional<double> process_seconds_per_sample{};      ///< CPU time of the training process, all threads: pinning, too
  std::optional<double> workers_seconds_per_sample{};      ///< CPU time of all workers
  std::optional<double> take_over_seconds_per_sample{};    ///< of a batch that lies ready, until the training process has it
  std::optional<double> start_seconds{};                   ///< until the first batch, with starting the workers
};

/// A file or folder that the words of a launched command name, or that makes its loader, as it was when the command was profiled.
struct CommandPathRecord {
  enum class Kind { code, data };
  std::string path;  ///< absolute
  Kind kind = Kind::data;
  std::string digest;  ///< of the contents; of a large file or a folder, of names, sizes and times
};
constexpr std::array<const char*, 2> names_of(CommandPathRecord::Kind /*type*/) { return {"code", "data"}; }

/// What is needed to run a launched command again, and to know that it is the same one.
struct LaunchRecord {
  std::string working_directory;
  std::vector<CommandPathRecord> paths;
  double first_step_seconds = 0;  ///< from the start to the first step that was measured
  std::optional<double> cores{};  ///< that the command or its script chose for its ranks, or more where it used more; nothing: all of the host's
};

/// The change to a launched training that gains most for least, as the models predict it.
struct FixRecord {
  int workers = 0;
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double speedup = 1;      ///< over the training unchanged, as the same model predicts it
  std::string next;        ///< the bottleneck then, words
  bool too_close = false;  ///< the intervals overlap: which is next is inconclusive
  std::string check;       ///< the command that runs it
  double check_seconds = 0;
};

}  // namespace dsanalyze
