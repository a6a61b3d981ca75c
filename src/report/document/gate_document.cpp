#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/text/text.hpp"
#include "core/records/gate_result.hpp"
#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t most_source_bytes = 300;

std::string side_text(const GateSide& side) {
  std::string text = fmt::format("{}; {}; {}", gate_runs_text(side), fmt::join(side.tools, ", "),
                                 shortened(fmt::format("{}", fmt::join(side.sources, ", ")), most_source_bytes));
  if (side.calibration) text += fmt::format("; calibration {} passes/s", format_number(*side.calibration));
  return text;
}

/// As the table shows it, so that chart and table agree to the digit.
double shown(double share) { return std::strtod(gate_percent(share).c_str(), nullptr); }

Chart effects_chart(const GateResult& result) {
  constexpr double wide = 10;  // an interval of ten times the baseline would press all others to a point
  Chart chart;
  chart.name = "effects";
  chart.title = "change of each metric with its interval";
  chart.kind = Chart::Kind::points;
  chart.x_label = "change in % of the baseline; of stalls in percentage points";
  chart.marks.push_back({0, "no change"});
  Chart::Series series{"change", "result", {}, Chart::Series::Line::none};
  for (const GateMetric& metric : result.metrics) {
    Chart::Point point{static_cast<double>(chart.categories.size()), shown(metric.effect)};
    if (metric.interval && metric.interval->high <= wide) {
      point.low = shown(metric.interval->low);
      point.high = shown(metric.interval->high);
    }
    series.points.push_back(point);
    chart.categories.push_back(metric.name);
  }
  chart.series.push_back(std::move(series));
  return chart;
}

Section verdict_section(const GateResult& result) {
  Section section{"verdict", begun(gate_verdict_name(result.verdict)) + ": " + result.reason};
  section.blocks.emplace_back(
      Terms{{{"What counts",
              fmt::format(
                  "A change of {:.3g} % or more; of a stall, so many points. The intervals hold together with {:.3g} %, so a false regression in any "
                  "metric has at most {:.2g} %.",
                  100 * result.min_effect, 100 * result.confidence, 50 * (1 - result.confidence))},
             {"Baseline", side_text(result.baseline)},
             {"Current", side_text(result.current)}}});
  if (result.seconds) section.blocks.emplace_back(Paragraph{"The comparison took " + format_seconds(*result.seconds) + ".", Paragraph::Tone::muted});
  return section;
}

Section metrics_section(const GateResult& result) {
  Section section{"metrics", "What changed"};
  Table table{"rates in samples/s, stalls as shares of the epoch",
              {{"metric", Align::left},
               {"baseline"},
               {"current"},
               {"change"},
               {fmt::format("{:.3g} % interval", 100 * result.confidence)},
               {"verdict", Align::left},
               {"why", Align::left}}};
  for (const GateMetric& metric : result.metrics)
    table.add({metric.name, gate_value_text(metric, metric.baseline), gate_value_text(metric, metric.current), gate_effect_text(metric),
               gate_interval_text(metric), gate_verdict_name(metric.verdict), metric.reason});
  if (!table.rows.empty())
    section.blocks.emplace_back(Figure{
        "",
        "Where an interval leaves out zero the difference is sound; it is a regression or an improvement where it is also as large as what counts.",
        {effects_chart(result)},
        std::move(table)});
  return section;
}

Section left_out_section(const GateResult& result) {
  Section section{"left-out", "What was not compared"};
  Table table{"metrics and fields that were left out", {{"what", Align::left}, {"why", Align::left}}};
  for (const GateAbsence& each : result.absent) table.add({each.metric, each.reason});
  for (const GateDifference& each : result.ignored)
    table.add({each.field, fmt::format("differs ({} against {}), as was asked to be ignored", each.baseline, each.current)});
  if (!table.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

}  // namespace

Document gate_document(const GateResult& result) {
  Document document;
  document.subtitle = result.mode == "commands" ? "gate: alternating runs of two commands" : "gate: results compared";
  document.sections = {verdict_section(result), metrics_section(result), left_out_section(result), findings_of(result.findings)};
  std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
  return document;
}

}  // namespace dsanalyze::report
