#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "attach/launch.hpp"
#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/host/host.hpp"
#include "core/records/whatif_result.hpp"
#include "models/whatif/training_model.hpp"

namespace dsanalyze {

/// Whether the command of a profile is still the one that was profiled. Throws UsageError when its program or a script is gone, a script was changed,
/// or this is another working directory; returns what may matter beside (data-changed: other files behind a path of the command).
std::vector<Finding> check_same_command(const ProfileResult& profile, const std::filesystem::path& working_directory);

/// Why a launched training cannot be run here with the change of an answer; empty when it can.
std::string cannot_run(const ProfileResult& profile, const HostFacts& host, const WhatIfAnswer& answer);

struct TrainingValidationPlan {
  std::vector<std::size_t> order;  ///< of the answers: the training as found first
  int rounds = 0;                  ///< each runs all of them once, one after another
  double measured_seconds = 0;     ///< of one run
  double seconds = 0;              ///< of all, with their starts
  std::size_t left_out = 0;        ///< could run, and do not fit
};
/// `seconds`: of all runs together; 0: at most 3 minutes. Fills not_measured of the answers that will not run.
TrainingValidationPlan plan_training_validation(const ProfileResult& profile, const HostFacts& host, WhatIfResult& result, double seconds);
/// One line, for people.
std::string plan_text(const TrainingValidationPlan& plan, std::size_t answers);

/// How the runs are started.
struct TrainingRuns {
  LaunchSettings settings;  ///< with command, hook and output
  /// A private, empty folder, which goes with what is returned.
  std::function<std::shared_ptr<const std::filesystem::path>()> folder;
  HostFacts host;
};

/// Runs the plan: each of its answers `rounds` times, interleaved, with num_workers set in the hook, cores by affinity, and memory for the
/// page cache and a slower storage by cgroups (TrainingLimits), each in a sandbox of its own where there are any. The measured rate is the
/// training's own over its steps, with an interval of what varies within runs and between them; it is compared at the machine's speed of the moment,
/// unless the profile began with another part of its data in memory than in the long run. Fills measured and not_measured, and the result's
/// validation: passed (errors within 8 % or the measurement's own interval, the median within 3 % or the same, every bottleneck right or
/// inconclusive), failed, or undecided (a measured interval beyond 10 %, errors past the bounds where the intervals overlap, or nothing could be
/// run). Throws Error when a run fails, or trains on other data than the profile's; Interrupted.
void validate_training(const TrainingValidationPlan& plan, const ProfileResult& profile, const TrainingRuns& runs, WhatIfResult& result,
                       EventSink& events, const std::stop_token& stop, Timing timing);

/// The bottleneck by a run: the fraction of a step that waits for batches, beyond what taking a batch over takes in any case.
struct TrainingVerdict {
  std::string bottleneck;  ///< gpu, cpu
  bool too_close = false;
};
TrainingVerdict training_verdict(double waiting_fraction, double delivery_fraction);

/// The machine's speed of the moment over that of the profile, by what the training as found reaches now. 1 where it read another part of its data
/// from storage while it was profiled than in the long run: its rate then says nothing of the machine.
double machine_speed(const TrainingModel& model, double found_now);

/// The rate of several runs of one configuration: their mean, and the half-widths of what varies within them and of what varies between them, in
/// squares.
struct RepeatedRate {
  double samples_per_s = 0;
  Interval ci95;
};
RepeatedRate repeated_rate(const std::vector<double>& rates, const std::vector<Interval>& intervals);

/// Of all answers, once measured rates and errors are in.
WhatIfValidation conclude_training_validation(const std::vector<WhatIfAnswer>& answers);

}  // namespace dsanalyze
