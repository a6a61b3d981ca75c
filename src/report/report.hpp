#pragma once

#include <span>
#include <string>
#include <variant>

#include "core/records/doctor_result.hpp"
#include "core/records/gate_result.hpp"
#include "core/records/report_curves.hpp"
#include "core/records/result.hpp"
#include "core/records/share_result.hpp"
#include "core/records/simulate_result.hpp"
#include "core/records/whatif_result.hpp"

namespace dsanalyze {

enum class Colour { off, on };

/// How a view is laid out for a terminal.
struct ConsoleStyle {
  Colour colour = Colour::off;
  int width = 80;  ///< columns; lines are kept within it where there are at least 40, and within 120
};

/// The summary that a person understands at a glance: the verdict, how much of the epoch is lost to prep and to fetch, what to do first, how sure and
/// why; then rates with intervals in plain words with their letters, runs, findings.
std::string console_summary(const ProfileResult& result, const ConsoleStyle& style);
/// A table: what changes, samples/s with interval, epoch time, the bottleneck, speed-up; then what --find found, advice, findings.
std::string console_summary(const WhatIfResult& result, const ConsoleStyle& style);
/// A table: policy and cache, then, of an epoch after the first, hits, misses, bytes read and read amplification; findings.
std::string console_summary(const SimulateResult& result, const ConsoleStyle& style);
/// The verdict in one line; a table: metric, both sides, change, interval, verdict; why what is undecided is; what was compared; findings.
std::string console_summary(const GateResult& result, const ConsoleStyle& style);

/// What the group shared, in a sentence; a table of its jobs: what each took, prepared, took over, how it ended; commands that failed; memory.
std::string console_summary(const ShareResult& result, const ConsoleStyle& style);

enum class DoctorDetail {
  usual,  ///< problems and warnings in full, notes and what is not known in short, the rest by title
  all
};
/// How many of each, then the checks, the gravest first, with what was found, why it matters and the commands that fix it (lines that are not
/// broken, however wide); machine and dataset last.
std::string console_summary(const DoctorResult& result, const ConsoleStyle& style, DoctorDetail detail);

/// A result that a report is about, with what the models say of it.
struct ReportInput {
  std::string label;  ///< what tells it from the others: its file's name
  std::variant<ProfileResult, WhatIfResult, SimulateResult, DoctorResult, GateResult> record;
  ReportCurves curves;         ///< of a profile
  std::string whatif_command;  ///< of a profile: "dsanalyze whatif FILE", to which its page adds an option
};

/// GitHub-flavoured Markdown. Several profiles stand side by side, others one after another. Whatever names hold, no markup comes of them.
std::string markdown_report(std::span<const ReportInput> inputs);

/// What makes a page of a report, the same for all (reports/html).
struct HtmlAssets {
  std::string page;     ///< the template: {{policy}}, {{title}}, {{style}}, {{subtitle}}, {{navigation}}, {{sections}}, {{record}}, {{scripts}}
  std::string policy;   ///< the content security policy, with the digests of style and scripts
  std::string style;    ///< CSS
  std::string scripts;  ///< the <script> elements
};

/// One HTML page that needs no network and no other file. Every number and sentence is static; scripts add charts and sliders. The records are in it
/// as JSON, with long texts and lists cut.
std::string html_report(std::span<const ReportInput> inputs, const HtmlAssets& assets);
/// "dsanalyze.report/1": the records whole, with the curves.
std::string json_report(std::span<const ReportInput> inputs);
/// One result: its console_summary(), and the table of a sweep where it is one. Several profiles: a table with a column each.
std::string console_report(std::span<const ReportInput> inputs, const ConsoleStyle& style);

/// The profile as OpenMetrics 1.0 text, which Prometheus scrapes and whose lines node_exporter's textfile collector reads too (gauges and summaries
/// alone, no timestamps). Every sample carries the label `dataset`. Base units (seconds, bytes, ratios) in the names. What is not known has no line.
/// Names from outside are made printable and quoted. Ends with "# EOF". Threads: any.
std::string open_metrics(const ProfileResult& result);

}  // namespace dsanalyze
