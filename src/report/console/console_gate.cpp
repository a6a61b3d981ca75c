#include <fmt/format.h>

#include "base/text/text.hpp"
#include "console_table.hpp"
#include "core/records/gate_result.hpp"
#include "report/report.hpp"

namespace dsanalyze {
namespace {

using console::Ink;
using console::paint;
using console::Table;

constexpr std::size_t most_source_bytes = 160;

Ink ink_of(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::regression:
      return Ink::red;
    case GateVerdict::cannot_tell:
      return Ink::yellow;
    case GateVerdict::improvement:
      return Ink::green;
    case GateVerdict::no_change:
      break;
  }
  return Ink::bold;
}

std::string metrics_table(const GateResult& result, std::size_t width) {
  const auto left = Table::Align::left;
  Table table(
      {{"metric", left}, {"baseline"}, {"current"}, {"change"}, {fmt::format("{:.3g} % interval", 100 * result.confidence)}, {"verdict", left}}, 0);
  for (const GateMetric& metric : result.metrics)
    table.add({metric.name, gate_value_text(metric, metric.baseline), gate_value_text(metric, metric.current), gate_effect_text(metric),
               gate_interval_text(metric), gate_verdict_name(metric.verdict)});
  return table.text(width);
}

std::string side_paragraph(const std::string& name, const GateSide& side, std::size_t width) {
  const std::string sources = shortened(fmt::format("{}", fmt::join(side.sources, ", ")), most_source_bytes);
  if (side.runs == 0) return paragraph(fmt::format("  {:<10}", name), printable("no runs yet in " + sources), width);
  std::string text = fmt::format("{}; {}; {}", gate_runs_text(side), fmt::join(side.tools, ", "), sources);
  if (side.calibration) text += fmt::format("; calibration {} passes/s", format_number(*side.calibration));
  return paragraph(fmt::format("  {:<10}", name), printable(text), width);
}

}  // namespace

std::string console_summary(const GateResult& result, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  std::string text;
  for (const std::string& line : wrap(fmt::format("{}: {}", gate_verdict_name(result.verdict), printable(result.reason)), width))
    text += paint(line, ink_of(result.verdict), style.colour) + "\n";
  text += "\n" + (result.metrics.empty() ? "" : metrics_table(result, width) + "\n");
  for (const GateMetric& metric : result.metrics)
    if (metric.verdict == GateVerdict::cannot_tell) text += paragraph("  " + metric.name + ": ", printable(metric.reason), width);
  text += side_paragraph("baseline", result.baseline, width) + side_paragraph("current", result.current, width);
  text += paragraph(
      "  counts    ",
      fmt::format("a change of {:.3g} % or more (stalls: points); the intervals hold together, so a false regression in any metric has at most "
                  "{:.2g} %",
                  100 * result.min_effect, 50 * (1 - result.confidence)),
      width);
  for (const GateAbsence& each : result.absent) text += paragraph("  left out  ", printable(each.metric + ": " + each.reason), width);
  for (const GateDifference& each : result.ignored)
    text += paragraph("  ignored   ", printable(fmt::format("{}: {} against {}", each.field, each.baseline, each.current)), width);
  if (result.seconds) text += paragraph("  took      ", format_seconds(*result.seconds), width);
  return text + console::findings_section(result.findings, style);
}

}  // namespace dsanalyze
