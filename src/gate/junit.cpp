#include <fmt/format.h>

#include <algorithm>

#include "base/text/markup.hpp"
#include "core/records/gate_result.hpp"
#include "gate.hpp"
#include "views.hpp"

namespace dsanalyze {
namespace {

/// XML 1.0 has no U+FFFE and U+FFFF either, which HTML has.
std::string xml_text(const std::string& text) {
  std::string out = html_text(text);
  for (const std::string_view forbidden : {"\xef\xbf\xbe", "\xef\xbf\xbf"})
    for (std::size_t at = out.find(forbidden); at != std::string::npos; at = out.find(forbidden, at))
      out.replace(at, forbidden.size(), "\xef\xbf\xbd");
  return out;
}

std::string outcome_of(const GateMetric& metric) {
  const std::string line = xml_text(gate::metric_line(metric));
  switch (metric.verdict) {
    case GateVerdict::regression:
      return fmt::format("      <failure type=\"regression\" message=\"{}\"/>\n", line);
    case GateVerdict::cannot_tell:
      return fmt::format("      <skipped message=\"{}\"/>\n", line);
    case GateVerdict::improvement:
    case GateVerdict::no_change:
      break;
  }
  return fmt::format("      <system-out>{}</system-out>\n", line);
}

}  // namespace

std::string gate_junit(const GateResult& result) {
  const auto count = [&result](GateVerdict verdict) { return std::ranges::count(result.metrics, verdict, &GateMetric::verdict); };
  // A report without a test case would be taken for a pass.
  const std::size_t stand_in = result.metrics.empty() && result.absent.empty() ? 1 : 0;
  const auto skipped = static_cast<std::size_t>(count(GateVerdict::cannot_tell)) + result.absent.size() + stand_in;
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3f}\"", result.metrics.size() + result.absent.size() + stand_in,
                  count(GateVerdict::regression), skipped, result.seconds.value_or(0));
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  text += fmt::format("<testsuites name=\"dsanalyze gate\" {}>\n  <testsuite name=\"dsanalyze gate\" {}>\n", counts, counts);
  for (const GateMetric& metric : result.metrics) {
    text += fmt::format("    <testcase classname=\"dsanalyze.gate\" name=\"{}\" time=\"0\">\n", xml_text(metric.name));
    text += outcome_of(metric) + "    </testcase>\n";
  }
  for (const GateAbsence& each : result.absent)
    text += fmt::format(
        "    <testcase classname=\"dsanalyze.gate\" name=\"{}\" time=\"0\">\n      <skipped message=\"not compared: {}\"/>\n    </testcase>\n",
        xml_text(each.metric), xml_text(each.reason));
  if (stand_in > 0)
    text +=
        fmt::format("    <testcase classname=\"dsanalyze.gate\" name=\"comparison\" time=\"0\">\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                    xml_text(result.reason));
  std::string notes = fmt::format("{}: {}", gate_verdict_name(result.verdict), result.reason);
  for (const Finding& finding : result.findings) notes += fmt::format(" | {} [{}]", finding.message, finding.code);
  return text + fmt::format("    <system-out>{}</system-out>\n  </testsuite>\n</testsuites>\n", xml_text(notes));
}

}  // namespace dsanalyze
