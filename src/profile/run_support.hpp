#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/host/control_group.hpp"
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

/// Holds the kernel's page cache to what the user asked for while it exists (--memory-limit): the group's limit follows the process's own memory, so
/// that what is left for pages of files stays the same. What the process takes between two looks comes out of the page cache, so below `least` the
/// kernel might find nothing to evict and kill the process: less is not held. Nothing without a limit.
class PageCacheLimit {
 public:
  /// `to_come`: own memory that processes of the run take soon, for which room is held until settle(). Those that this one starts meanwhile are held
  /// with it. Throws Error where cgroups are not permitted.
  explicit PageCacheLimit(RunContext& context, Bytes to_come = 0);
  /// Everybody has the memory that he works with.
  void settle() { m_to_come = 0; }
  /// To be called while the run goes on, as often as one likes: it looks ten times a second.
  void adjust(Nanoseconds now);
  /// The run is over: the process may take what memory it needs.
  void end();
  static constexpr Bytes least = Bytes{32} << 20;
  /// What a job takes beside its batch slots: stacks, buffers, the program.
  static constexpr Bytes of_a_job = Bytes{32} << 20;
  /// Page cache as seen last, what was asked for, and what is held at most; 0 without a limit.
  [[nodiscard]] Bytes held() const { return m_held; }
  [[nodiscard]] Bytes asked() const { return m_asked; }
  [[nodiscard]] Bytes target() const { return std::max(m_asked, least); }
  /// Says what was held; nothing without a limit.
  void report(RunContext& context) const;

 private:
  std::optional<MemoryGroup> m_group;
  bool m_was_active = false;
  Bytes m_to_come = 0;
  Bytes m_asked = 0;
  Bytes m_held = 0;
  Nanoseconds m_next_look = 0;
};

}  // namespace dsanalyze
