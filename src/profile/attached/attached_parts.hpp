#pragma once

// What makes the record of a launched training; each part is in the source that stands above it. attached_profile() puts them together.

#include <optional>

#include "attach/launch.hpp"
#include "attach/training.hpp"
#include "base/host/host.hpp"
#include "core/records/attached_record.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

// attached_machine.cpp

/// Those that took steps; the process that started them may have spoken, too.
int rank_count(const AttachedTraining& training);
HostRecord host_record(const HostFacts& host, const AttachedTraining& training);
/// LaunchRecord::cores, of ranks that may use `all`. Pure.
std::optional<double> chosen_cores(const AttachedTraining& training, double all);
/// Of the CPU time that the training may use, what other programs took in each run; their names are those of the whole profile.
void take_others(const LaunchedTraining& launched, const HostFacts& host, ProfileResult& result);

// attached_waits.cpp

/// The mean step of a phase in its parts, with what lies between its epochs; of several ranks, the mean of theirs, and each rank's own.
WaitsRecord waits_of(const PhaseMeasurement& phase);
/// The process waits for a batch while a device works through its queue: where rates say that the training loses less to data, 0 to 1, the rest of
/// that waiting is computing.
void leave_out_hidden(double lost_fraction, WaitsRecord& waits);
/// The waits for a batch, one a step, of all ranks, seconds.
std::vector<double> data_waits(const std::map<int, std::vector<StepWindow>>& windows);

/// What each rank's loader supplies when it is drained: RankWaitsRecord::supply_seconds_per_step.
void take_supplies(const AttachedTraining& training, WaitsRecord& waits);

/// The CPUs that each rank may use.
void take_cpus(const AttachedTraining& training, WaitsRecord& waits);
/// "0-3,8" of rising numbers.
std::string cpus_text(const std::vector<int>& cpus);

// attached_prep.cpp

/// P of the loader's drains: ProfileResult::prep, prep_by_workers and the run "prep".
void take_drains(const AttachedTraining& training, ProfileResult& result);

// hot_stages.cpp

/// ProfileResult::hot: what the workers computed while the loader was drained, where they were looked at often enough; the parts of 1 % and more.
/// Threads: one at a time.
void take_hot_stages(const AttachedTraining& training, ProfileResult& result);

// script_costs.cpp

/// ProfileResult::script_costs: what the script did beside its training steps as it was found, from a hundredth of its time on. Pure.
void take_script_costs(const AttachedTraining& training, ProfileResult& result);

// attached_findings.cpp

constexpr Bytes negligible_bytes = Bytes{1} << 20;  ///< of storage
constexpr double tolerated_fraction = 0.01;         ///< of a run's bytes, from storage; of its steps, skipped
constexpr double tolerated_wait = 0.02;             ///< for storage, of a run's time

/// What makes a launched training's rates doubtful, and what its user should know; takes the result's trust where a rate cannot be believed.
void find_attached_problems(const LaunchedTraining& launched, const LaunchSettings& settings, ProfileResult& result);

// sandbox_findings.cpp

/// What became of what the command wrote. Pure.
std::vector<Finding> sandbox_findings(const SandboxContents& contents);
/// That, or why there was no sandbox.
void tell_sandbox(const LaunchedTraining& launched, const LaunchSettings& settings, ProfileResult& result);

}  // namespace dsanalyze
