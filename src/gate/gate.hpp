#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "core/records/gate_result.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

// Did the current side get slower than the baseline? One observation is a run (one profile record), never a window within a run: windows of one run
// share what that run met. Rates are compared by their ratio (on a log scale), stalls by their difference.
//
// A metric's verdict follows from its interval, which holds for all metrics of the comparison together: a regression is an interval wholly on the
// worse side of 0 whose point estimate is at least `min_effect` worse; an improvement its mirror; no change an interval wholly within +- min_effect;
// anything else cannot tell. The comparison's verdict is the gravest: regression, cannot tell, improvement, no change.

enum class Untrusted { refuse, accept };
/// by_calibration: rates that the CPU bounds are divided by the speed that each result's calibration found; others that depend on it are left out.
enum class Normalize { no, by_calibration };

struct GateOptions {
  double min_effect = 0.03;                 ///< share of a rate; of stalls 0.03 is three percentage points
  std::vector<std::string> metrics;         ///< empty: P, S, cached, full, prep-stall, fetch-stall
  std::vector<std::string> ignore;          ///< identity fields ("host.kernel") or groups of them ("host") that may differ
  Untrusted untrusted = Untrusted::refuse;  ///< refuse: verdicts that rest on a run that is not trusted cannot tell
  Normalize normalize = Normalize::no;
  std::uint64_t seed = 1;  ///< of the order within pairs

  /// Throws UsageError that names the option.
  void validate() const;
};

/// A run and where it comes from.
struct GateRun {
  std::string source;
  ProfileResult profile;
  std::uint64_t content = 0;  ///< hash of the record's text; 0: not from a file
  std::string text = {};      ///< the record as it was read, which a pipe gives once; empty: not from a file
};

/// Reads profiles: files, and folders of which every *.json is one, in order of their names (other files there are passed over). Throws UsageError
/// that names the file: not there, not whole, not a profile, over 256 MiB, the same result twice, in a folder what is no regular file (one named by
/// itself may be a pipe); an empty folder gives no runs.
std::vector<GateRun> read_gate_runs(const std::vector<std::filesystem::path>& places);

/// Compares results that are there. Results that began within an hour of one another are one session. What ran in the same session is compared run by
/// run, unless the baseline's sessions tell more; else a session is one observation, as a machine's drift is shared by all its runs, and one baseline
/// session cannot tell.
/// Throws UsageError where results are not comparable, with all differing fields; where a result is on both sides; for unknown metrics and fields.
/// At least one run a side.
GateResult compare_results(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options);

/// What a first comparison leaves: undecided, with how to accept these results as the baseline.
GateResult result_without_baseline(const std::vector<std::string>& places, std::span<const GateRun> current, const GateOptions& options);

enum class GateSideName { baseline, current };
std::string_view gate_side_word(GateSideName side);  ///< "baseline", "current"

/// How alternating runs of two commands are compared.
struct GateCommands {
  std::string baseline;  ///< run by /bin/sh -c; each prints one profile as JSON
  std::string current;
  int most_pairs = 20;
  int warm_ups = 1;                  ///< runs of each that are not counted, at the beginning
  double time_budget_seconds = 600;  ///< no pair is begun that would end later
  double run_seconds = 600;          ///< a run that takes longer is ended, with all that it started

  void validate() const;
};

/// One run of a side. Throws Error.
using GateRunner = std::function<ProfileResult(GateSideName side)>;
/// Runs the commands, each in a process group of its own, which is ended (SIGTERM, then SIGKILL) past the deadline, on a stop, and when the command
/// ends before what it started. Throws Error that names the side: exit status with the last lines of stderr, no profile on stdout; Interrupted.
GateRunner shell_runner(const GateCommands& commands, std::stop_token stop);

/// Alternates runs of both sides (the order within pairs is random, in blocks ABBA or BAAB), looks after 40, 60, 80 and 100 % of the pairs and ends
/// at the first look that finds a regression or has decided every metric. All looks together err with the probability of one. A time budget that ends
/// before a planned look is a look too. A pair with a run that is not trusted is run again, at most as often as a quarter of the pairs; then the
/// comparison ends undecided; so does one of which the first pair has no metric on both sides. Threads: calls the runner from the calling thread.
GateResult compare_commands(const GateCommands& commands, const GateOptions& options, const GateRunner& runner, EventSink& events,
                            const std::stop_token& stop, const Clock& clock);

// The store of baselines: a folder of profiles, named by when they began and what they hold, so that names sort by time and no two clash.

enum class Replace { no, yes };  ///< yes: what the store held before is removed
struct AcceptedResult {
  std::filesystem::path path;
  bool already_there = false;
};
/// Puts results into the store, which is made if need be; each file appears whole or not at all. Throws UsageError, before anything is written, for
/// results that are not trusted (unless `untrusted` accepts), and for identity fields that differ among them or from what the store holds (unless
/// replaced or ignored). What is replaced is not read, so it may be broken.
std::vector<AcceptedResult> accept_baselines(const std::filesystem::path& store, std::span<const GateRun> results, const GateOptions& options,
                                             Replace replace);

// Views of the record for other programs. Pure; text from outside is escaped as the format asks.

/// JUnit XML: a test case a metric; a regression is a failure, cannot tell is skipped, with the reason.
std::string gate_junit(const GateResult& result);
/// A table for a pull request.
std::string gate_markdown(const GateResult& result);
/// GitHub workflow commands, one a line: errors for regressions, warnings for what cannot be told, notices for improvements; at most 9 and one that
/// counts the rest, as GitHub drops what is beyond 10 a step and says nothing.
std::string gate_github_annotations(const GateResult& result);
/// A GitLab code quality report (JSON): one issue for each regression and each metric that cannot be told.
std::string gate_gitlab_report(const GateResult& result);

}  // namespace dsanalyze
