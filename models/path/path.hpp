#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace dsanalyze {

/// A value as it was measured. `error`: half of its 95 % interval, as a share of it.
struct Measured {
  double value = 0;
  double error = 0;
};

/// The time that a process keeps a core while others wait, on a machine of so many cores: 0.7 ms times 1 + log2 of them, of eight at most
/// [Linux, kernel/sched/fair.c: sysctl_sched_base_slice, SCHED_TUNABLESCALING_LOG].
double slice_on(int cores);

/// What storage supplies to so many readers at once.
struct SupplyPoint {
  double readers = 1;
  double samples_per_s = 0;
};

/// The way of a training's data, from storage to its steps: all that a sample passes, each with its rule. Times are seconds.
///
///   storage    serves its readers in equal parts, together as many samples as its curve says of their number
///   workers    each fetches and prepares batches of its own, in turn; batches come in order; each has `prefetch` of them ahead, and gets another
///              when the training has taken one over. No workers: the training prepares by itself  [PyTorch, torch/utils/data/dataloader.py]
///   cores      are shared by all that computes: a process keeps one for a slice of time, then the one that waits and had least comes next, and who
///              wakes has had a slice less than the others at most  [Linux, kernel/sched/fair.c: EEVDF, RUN_TO_PARITY]
///   hand-over  the training's process takes a batch over: it computes, and waits for the worker. Without workers it computes alone
///   steps      train it; of `threads` cores they compute on the same cores, and for the rest of their time elsewhere. So often they wake, and need a
///              core again
struct Path {
  struct Storage {
    std::vector<SupplyPoint> curve{};                       ///< readers rising; empty: all comes from memory
    double most = std::numeric_limits<double>::infinity();  ///< samples/s that a limit lets through, those of a tenth of a second at once
    double miss_fraction = 0;                               ///< of the samples, those that come from it
    double error = 0;
  };
  struct Workers {
    int count = 0;           ///< of each rank
    int prefetch = 2;        ///< batches ahead, of each
    int threads = 1;         ///< in which it computes
    Measured cpu_seconds;    ///< of a sample: computing, all threads
    Measured other_seconds;  ///< of a sample: waiting for what is neither a core nor storage
    double scatter = 0.5;  ///< by how much of its mean a sample's need differs, either way (a judgement; no profile says it); 0: misses are even, too
  };
  struct Cores {
    double count = 1;
    double slice_seconds = slice_on(1);
  };
  struct Steps {
    double samples = 1;          ///< of one rank
    Measured seconds;            ///< with batches at hand
    double host_seconds = 0;     ///< of these: what no accelerator makes shorter
    int wakes = 1;               ///< of the process in a step: threads that wait for one another, a device, sleeps
    double threads = 0;          ///< cores that it computes on, in the mean
    bool threads_scale = false;  ///< a faster accelerator makes that shorter, too: the CPU trains
    double speed = 1;            ///< of the accelerators, over that which was measured
    bool goes_ahead = false;     ///< on a device: the process asks for the next batch while the device computes
  };
  int ranks = 1;
  Storage storage;
  Workers workers;
  Cores cores;
  struct Handover {
    double cpu_seconds = 0;  ///< of a batch
    double other_seconds = 0;
  };
  Handover handover;
  Steps steps;
};

/// Threads that one run moves one by one, at most: so many take it less than a second (a judgement of what an answer may cost).
inline constexpr int most_moved_threads = 1024;
/// Of a batch, in each of which a worker reads, computes and waits, and of a step: a resolution (a judgement).
inline constexpr std::size_t most_parts = 12;

/// That compute at once at most: of workers, and of steps.
double moved_threads(const Path& path);
/// In which a process computes that was seen to use so many cores in the mean: a tenth of a core more than whole ones is rounding.
int threads_of_cores(double cores_used);

/// What a step takes with batches at hand, at its accelerators' speed.
double step_seconds(const Path::Steps& steps);

/// What a training does with its batches.
enum class Pace {
  trains,  ///< waits for each one
  drains,  ///< waits for each one, and takes no steps
  busy     ///< has batches at hand, and takes over at most one that is ready in each step
};

/// Samples/s of all ranks in the long run; infinite where nothing takes any time. Moves some hundred batches through the path by discrete events.
/// Equal arguments give equal rates. Pure; 0.1 to 1 ms of up to eight workers. Of more, batches have fewer parts and turns on the cores last
/// longer: the others fill in.
double run(const Path& path, std::uint64_t seed, Pace pace = Pace::trains);

/// Of the curve, samples a second with so many readers: between two points straight over the logarithm of readers, beyond them as at the last.
double supply(const std::vector<SupplyPoint>& curve, double readers);

}  // namespace dsanalyze
