#include <fmt/format.h>

#include "base/text/markup.hpp"
#include "core/records/gate_result.hpp"
#include "gate.hpp"
#include "views.hpp"

namespace dsanalyze {
namespace gate {

std::string metric_line(const GateMetric& metric) {
  return fmt::format("{}: {} (interval {}), {}: {}", metric.name, gate_effect_text(metric), gate_interval_text(metric),
                     gate_verdict_name(metric.verdict), metric.reason);
}

namespace {

constexpr std::size_t most_source_bytes = 200;

std::string mark_of(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::regression:
      return ":x:";
    case GateVerdict::improvement:
      return ":rocket:";
    case GateVerdict::no_change:
      return ":white_check_mark:";
    case GateVerdict::cannot_tell:
      break;
  }
  return ":grey_question:";
}

std::string side_line(const std::string& name, const GateSide& side) {
  const std::string sources = markdown_text(shortened(fmt::format("{}", fmt::join(side.sources, ", ")), most_source_bytes));
  if (side.runs == 0) return fmt::format("- {}: no runs yet in {}\n", name, sources);
  return fmt::format("- {}: {}, {}; {}\n", name, gate_runs_text(side), markdown_text(fmt::format("{}", fmt::join(side.tools, ", "))), sources);
}

}  // namespace
}  // namespace gate

std::string gate_markdown(const GateResult& result) {
  using namespace gate;
  std::string text =
      fmt::format("### {} dsanalyze gate: {}\n\n{}.\n\n", mark_of(result.verdict), gate_verdict_name(result.verdict), markdown_text(result.reason));
  text += fmt::format("| metric | baseline | current | change | {:.3g} % interval | verdict | |\n| --- | ---: | ---: | ---: | :---: | --- | --- |\n",
                      100 * result.confidence);
  for (const GateMetric& metric : result.metrics)
    text += fmt::format("| {} | {} | {} | {} | {} | {} {} | {} |\n", markdown_text(metric.name), gate_value_text(metric, metric.baseline),
                        gate_value_text(metric, metric.current), gate_effect_text(metric), gate_interval_text(metric), mark_of(metric.verdict),
                        gate_verdict_name(metric.verdict), markdown_text(metric.reason));
  text +=
      fmt::format("\nRates in samples/s, stalls as shares of the epoch. The intervals hold together; at least {:.3g} % (stalls: points) counts.\n\n",
                  100 * result.min_effect);
  text += side_line("baseline", result.baseline) + side_line("current", result.current);
  for (const GateAbsence& each : result.absent)
    text += fmt::format("- not compared: {}, {}\n", markdown_text(each.metric), markdown_text(each.reason));
  for (const GateDifference& each : result.ignored)
    text += fmt::format("- ignored: {} ({} against {})\n", markdown_text(each.field), markdown_text(each.baseline), markdown_text(each.current));
  for (const Finding& finding : result.findings) text += fmt::format("- {} \\[{}\\]\n", markdown_text(finding.message), markdown_text(finding.code));
  return text;
}

}  // namespace dsanalyze
