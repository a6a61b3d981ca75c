#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/text/units.hpp"
#include "core/records/attached_record.hpp"

namespace dsanalyze {

/// What the hook in a training process (python/dsanalyze/_attach) sends, one JSON object a line, and what it is answered. docs/attach-internals.md
/// is the contract between the two. Instants are CLOCK_MONOTONIC's.

/// A process has imported PyTorch's data loader, or has started a pass over what the script watches.
struct HelloMessage {
  int pid = 0;
  int rank = 0;
  int world = 1;
  std::optional<int> local_world{};  ///< ranks on this server, where what started them says so
  bool distributed = false;          ///< the library that trains has initialised its ranks: all of them run
};

/// What the process trains on, said before its first loader.
struct DeviceMessage {
  bool cuda = false;
  std::string device;       ///< name of the GPU, or of the CPU
  std::vector<int> cpus{};  ///< that the process may use, by number; empty: not known
  std::string gpus{};       ///< UUIDs of those that train, with commas between; empty: none, or not known
};

/// The loader whose batches are the steps that checkpoints count, as soon as it is known.
struct LoaderMessage {
  LoaderRecord loader;
};

/// Consecutive training steps; one number a step in each list, seconds. Steps that were only counted have samples and no other list.
struct StepWindow {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  Nanoseconds between = 0;            ///< of that time: between passes over the loader, and at checkpoints
  std::vector<double> wait;           ///< for the next batch of every training loader
  std::vector<double> compute;        ///< from the batch to the end of the optimizer's step
  std::vector<double> outside;        ///< from there to the next request for a batch
  std::vector<double> validation;     ///< of `outside`: in loops without gradients
  std::vector<double> ranks;          ///< of `compute`: waiting for other ranks
  std::vector<double> outside_ranks;  ///< of `outside`: waiting for other ranks
  std::vector<double> samples;
  double sampling_seconds = 0;  ///< of all parts: choosing the samples of batches, which samplers do in the training's own process
  std::uint64_t optimizer_steps = 0;
  std::uint64_t skipped = 0;  ///< optimizer steps that GradScaler skipped
  bool cut = false;           ///< only counted, and more than these steps happened
  [[nodiscard]] bool is_counted() const { return wait.empty(); }
};

enum class AttachPhase {
  full,      ///< batches of the script's own loader, as found
  cached,    ///< the same of a part of its data that is in memory
  busy,      ///< batches that are handed out again and again, while the loader's workers go on as in `cached`
  synthetic  ///< the same while they rest
};
constexpr std::array<const char*, 4> names_of(AttachPhase /*type*/) { return {"full", "cached", "busy", "synthetic"}; }

/// From the end of one epoch to the first step of the next.
struct EpochGap {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double start_seconds = 0;  ///< waiting for the old epoch's workers to end and the new one's to start
  double validation_seconds = 0;
  std::optional<double> first_batch_seconds{};  ///< the wait for the next epoch's first batch
  double sampling_seconds = 0;                  ///< choosing the samples of the next epoch's first batch, or of all
};

/// What a place of the script did beside training steps since the last checkpoint.
struct SpentTime {
  ScriptCostRecord::What what = ScriptCostRecord::What::save;
  std::string file;
  int line = 0;
  std::uint64_t count = 0;  ///< calls, or loops that began
  double seconds = 0;
  double waited_seconds = 0;     ///< of these, for batches
  std::optional<int> workers{};  ///< of the loader that the batches come from
};

/// A rank stands at a checkpoint and waits for an answer.
struct CheckpointMessage {
  enum class Why { start, window, epoch_end, switched };
  Why why = Why::start;
  std::uint64_t step = 0;  ///< steps of this epoch so far
  std::optional<StepWindow> window;
  std::optional<EpochGap> between;              ///< start of a later epoch
  std::uint64_t kept = 0;                       ///< switched: batches that are handed out again and again, as copies
  std::uint64_t copies = 0;                     ///< of these, as many as there is memory for: a window has no more steps
  std::optional<DeviceCopyRecord> copy{};       ///< switched: of a kept batch
  std::optional<std::uint64_t> tokens{};        ///< whole numbers in each sample, where all are rows of as many
  std::optional<std::array<int, 2>> picture{};  ///< height and width of each sample, where all are pictures of three colours
  std::vector<SpentTime> spent{};               ///< each place once
};
constexpr std::array<const char*, 4> names_of(CheckpointMessage::Why /*type*/) { return {"start", "window", "epoch_end", "switched"}; }

/// The loader was drained without steps; waits for an answer, too.
struct DrainedMessage {
  int workers = 0;
  bool measured = false;               ///< else it was the first pass, which brings the subset into memory
  Nanoseconds begin = 0;               ///< the iterator was asked for
  std::vector<Nanoseconds> delivered;  ///< one instant a batch
  std::vector<double> samples;         ///< of each
  std::vector<std::size_t> restarts;   ///< batches with which a stream began again
  double main_thread_cpu_seconds = 0;  ///< of the draining thread
  /// CPU time, of what was used while these samples were waited for: those of batches of workers that had started.
  struct Cpu {
    double samples = 0;
    double thread_seconds = 0;   ///< of the draining thread
    double process_seconds = 0;  ///< of its process, all threads
    double workers_seconds = 0;
  };
  std::optional<Cpu> cpu{};          ///< nothing where the kernel does not say, or too few batches came
  std::vector<Nanoseconds> takes{};  ///< of batches that lay ready while the workers rested: what taking each over took
  /// What the workers were found at.
  struct Stage {
    std::string name;  ///< "RandomResizedCrop", "train.py:23 augment"
    std::string file;
    int line = 0;
    std::uint64_t count = 0;  ///< looks that found a thread there
    double cpu_seconds = 0;   ///< of that thread and those that it waits for, since the look before each
  };
  std::vector<Stage> stages{};
  std::string error;  ///< why there is nothing, or less; empty
};

/// What the process has done so far, sent while none of its loaders is known to train.
struct SeenMessage {
  std::uint64_t batches = 0;         ///< handed out by DataLoaders
  std::uint64_t with_gradients = 0;  ///< of these, with gradients enabled
  std::uint64_t backward = 0;        ///< backward passes; 0 under --passive of one rank
  std::uint64_t optimizer_steps = 0;
  std::string dataset_class, file;  ///< of the loader asked last, and where it was made; empty
  int line = 0;
};

struct NoteMessage {
  std::string code, text;
};
/// The hook gave up: the process goes on as if there were none.
struct OffMessage {
  std::string why;
};
struct PassiveMessage {
  std::optional<StepWindow> window;
  std::optional<EpochGap> between;
};
struct ByeMessage {
  std::optional<StepWindow> window;  ///< what was measured since the last message
  std::string error;                 ///< the exception that ends the process, and its place in the script; empty
};

using HookMessage = std::variant<HelloMessage, DeviceMessage, LoaderMessage, CheckpointMessage, DrainedMessage, NoteMessage, SeenMessage, OffMessage,
                                 PassiveMessage, ByeMessage>;

/// Throws UsageError that names the field: the other side is another program's process.
HookMessage parse_hook_message(std::string_view line);

/// The next `steps` steps, then a checkpoint.
struct RunSteps {
  std::uint64_t steps = 0;
  bool count = false;  ///< they are only counted, and no clock is read
};
/// Then a checkpoint in the other phase.
struct SwitchPhase {
  AttachPhase phase = AttachPhase::full;
  std::uint64_t keep = 0;  ///< batches to be handed out again and again
  Bytes keep_bytes = 0;    ///< at most
};
struct DrainLoader {
  int workers = 0;
  std::uint64_t batches = 0;
  double seconds = 0;  ///< at most
  bool measured = false;
};
enum class PlainAnswer { go, end };
constexpr std::array<const char*, 2> names_of(PlainAnswer /*type*/) { return {"go", "end"}; }

using Answer = std::variant<RunSteps, SwitchPhase, DrainLoader, PlainAnswer>;
/// One line, with its end.
std::string answer_text(const Answer& answer);

}  // namespace dsanalyze
