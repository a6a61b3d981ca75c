#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "base/process/process_tree.hpp"
#include "base/statistics.hpp"
#include "core/records/attached_record.hpp"
#include "messages.hpp"

namespace dsanalyze {

/// Steps that followed one another, and what they trained. Those of a rank in one start follow one another, too, with nothing but ends of epochs
/// between.
struct SeenSteps {
  int start = 0;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double samples = 0;
};

/// The windows of one phase but the first, in the order of time.
struct PhaseMeasurement {
  std::map<int, std::vector<StepWindow>> by_rank;
  std::map<int, std::vector<EpochGap>> gaps;         ///< between epochs, as the script was found
  std::map<int, std::vector<double>> first_waits{};  ///< for epochs' first batches, seconds, which are in no window
  std::vector<SeenSteps> seen{};                     ///< full: all steps of all ranks, those too that are in no window
  bool complete = false;                             ///< precise enough, or its time is over; else the command ended in it
  bool whole_run = false;                            ///< windows and gaps are all that happened, as under --passive; else windows are samples of it
  std::optional<std::uint64_t> pass_steps{};         ///< of the last whole pass that was seen
  std::optional<TreeUse> before, after;
  std::vector<double> device_use{};  ///< looks at the GPUs that train: the share of the second before each in which they computed
  std::uint64_t kept_batches = 0;    ///< busy and synthetic: handed out in turn, from the first one on in each window
};

/// How many ranks a training has, and how many of them run in processes of this command that have the hook.
struct RankCount {
  int world = 1;
  int here = 0;
  bool known = false;  ///< what the processes say is certain: the others are not about to start here
  [[nodiscard]] int elsewhere() const { return known && here < world ? world - here : 0; }
};
/// "4 ranks, and 2 of them are processes of this command in which dsanalyze's hook works".
std::string text_of(const RankCount& ranks);

struct DrainMeasurement {
  int workers = 0;
  std::map<int, DrainedMessage> by_rank;
  std::optional<TreeUse> before, after;
};

/// What a rank's script did beside its training steps in the phase full.
struct BesideSteps {
  double seconds = 0;  ///< of the phase, in which that was seen
  double samples = 0;  ///< that the rank trained meanwhile
  std::vector<SpentTime> places{};
};

/// What was observed of a launched training.
struct AttachedTraining {
  std::map<int, HelloMessage> ranks;  ///< the process of each that said last what it is; one of a larger world stays
  DeviceMessage device;
  std::map<int, std::vector<int>> cpus;              ///< that each rank may use
  std::optional<LoaderRecord> loader;                ///< the primary one of the lowest rank
  std::optional<std::uint64_t> tokens_per_sample{};  ///< of it
  std::optional<std::array<int, 2>> picture{};       ///< height and width of the pictures in a batch of it
  std::map<AttachPhase, PhaseMeasurement> phases;
  std::vector<DrainMeasurement> drains;          ///< one of each number of workers
  std::vector<DrainMeasurement> further_drains;  ///< of those whose rate was not sure then
  bool drained = false;                          ///< with all numbers of workers
  std::map<int, BesideSteps> beside_steps;       ///< by rank
  std::uint64_t steps = 0;                       ///< that were seen in the last start, of the rank that took most
  int starts = 0;                                ///< of the command, before this one
  double earlier_seconds = 0;                    ///< that these were led
  bool out_of_time = false;                      ///< steps take so long that later phases did not fit the time budget
  bool several_trainings = false;                ///< passive: processes that trained one after another, or beside each other as the same rank
  std::vector<NoteMessage> notes;                ///< of the hook, each code once
  std::optional<SeenMessage> seen;               ///< while no loader was known to train, of the process that did most

  std::string error;  ///< the exception that ended a process first, and its place in the script; empty

  /// A thread of the script's own takes the batches from the loader, so that what the windows clock as waiting and computing is neither of the two.
  [[nodiscard]] bool fetched_in_thread() const;
  /// Whether no second pass over the loader's stream can be begun beside the script's own.
  [[nodiscard]] bool stream_goes_on() const;
  [[nodiscard]] RankCount rank_count() const;
  /// All of a number of workers, as they were measured.
  [[nodiscard]] std::vector<const DrainMeasurement*> drains_of(int workers) const;
  /// Whether a phase has windows of steps.
  [[nodiscard]] bool measured() const;
};

/// "80 batches of a DataLoader (train.py:41, MyDataset), 80 of them with gradients enabled, 80 backward passes, and no step of a torch.optim
/// optimizer".
std::string text_of(const SeenMessage& seen);
/// How a training is followed that has no PyTorch DataLoader, or no optimizer of PyTorch: a sentence without its end.
std::string watch_text();
/// That no step was recognised, what was seen instead, and what is needed; without its end, too.
std::string unrecognised_text(const std::string& seen);
/// What a step has of the waits for epochs' first batches, seconds: a wait once in as many steps as an epoch has.
double first_wait(const PhaseMeasurement& phase, int rank);
/// Of each window, what all ranks trained and the time of the slowest, without validations, which are no steps;
/// of a whole run, with them.
std::vector<Stretch> stretches_of(const PhaseMeasurement& phase);
/// Of each window, what the loaders of all ranks can supply together: ranks train in step, so it is their number times what the slowest one
/// delivered. Empty where too few batches came.
std::vector<Stretch> stretches_of(const DrainMeasurement& drain);
/// Of several drains, one after the other.
std::vector<Stretch> stretches_of(const std::vector<const DrainMeasurement*>& drains);
/// The share of a phase's steps that the rank which waits most waits for data, 0 to 1; nothing where no step was measured.
std::optional<double> waiting_fraction(const PhaseMeasurement& phase);
/// The steps of a later window behind those of `window`; what lies between is none of them.
void append(StepWindow& window, const StepWindow& later);
/// All of a window's steps together.
double step_seconds(const StepWindow& window);
/// The median step of a window in seconds.
double median_step_seconds(const StepWindow& window);
/// The mean one. On a device, steps by themselves tell how long the process took to ask for them.
double mean_step_seconds(const StepWindow& window);

}  // namespace dsanalyze
