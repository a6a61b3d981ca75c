#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "observer.hpp"
#include "runs.hpp"
#include "training.hpp"

namespace dsanalyze {

/// Fills what every loader run records: totals, epochs, timeline, operators, stalls.
RunRecord record_run(const std::string& name, const RunContext& context, const Pipeline& pipeline, const Loader& loader, const Observer& observer,
                     const TrainingLog& log);
/// What accelerators of a run had of it: the distribution of their waits, their utilisation, what they learned. Nothing without accelerators.
void record_accelerators(RunRecord& record, const ProfileSettings& settings, const TrainingLog& log, const Trainer& trainer);
/// A rate as the result has it; void windows become findings.
RateRecord record_rate(RunContext& context, const std::string& run, const WindowedRate& rate, double mean_bytes, const std::string& method);
/// The record's rate, interval and epoch time from the measured rate.
void take_rate(const RunContext& context, Measured& measured);
/// Samples that failed become a finding that names the first ones.
void report_failures(RunContext& context, const std::string& run, const Loader& loader);
/// Progress of a run that lasts at most `seconds`.
void show_progress(RunContext& context, const std::string& run, Nanoseconds begun, double seconds, double samples_per_s = -1);
/// "fetch    2,100 ± 40 samples/s" for the log as a run ends.
void note_rate(RunContext& context, const std::string& what, const RateRecord& rate);
/// What the load of others makes of the runs: windows-void, cpu-shared-with-others, cpu-taken-by-others (then nothing is trusted), with the
/// processes.
void judge_background_load(RunContext& context, const std::vector<RunRecord>& runs);
JudgeCpu judge_cpu(const RunContext& context);
double mean_sample_bytes(const RunContext& context);
/// Of the subset; 0 when the rate is not known.
double epoch_seconds(const RunContext& context, const RateRecord& rate);

/// A rate whose interval is narrower than this share on both sides needs no more time.
constexpr double narrow_enough = 0.01;

/// Room for the spans of the full run; nullptr when none are wanted (ProfileInputs::trace_events_file). Throws Error when there is no memory.
std::unique_ptr<SpanRecorder> make_span_recorder(const RunContext& context);
/// Writes the trace of a run whose loader has stopped and says so in findings: that the run was traced, spans that found no room, and a file that
/// could not be written, which costs no measurement.
void write_run_trace(RunContext& context, const SpanRecorder& spans, const Loader& loader, const Observer& observer, const TrainingLog& log);

/// How fast one core is by work that no version of this program changes: passes of integer hashing over 1 MiB, which take about 0.15 s in all.
/// Passes/s; 0 when no time passed. `dsanalyze gate --normalize` divides rates by it.
double calibrate_cpu(Timing timing);

}  // namespace dsanalyze
