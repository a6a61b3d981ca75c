#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "base/text/text.hpp"
#include "core/records/gate_result.hpp"
#include "gate.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_annotations = 9;

/// A workflow command's message: what would end the line is written as GitHub reads it back.
std::string command_message(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '%') {
      out += "%25";
    } else if (letter == '\r') {
      out += "%0D";
    } else if (letter == '\n') {
      out += "%0A";
    } else {
      out += letter;
    }
  }
  return printable(out);
}

/// A workflow command's property, which a colon or a comma would end too.
std::string command_property(const std::string& text) {
  std::string out;
  for (const char letter : command_message(text)) {
    if (letter == ':') {
      out += "%3A";
    } else if (letter == ',') {
      out += "%2C";
    } else {
      out += letter;
    }
  }
  return out;
}

/// "P: -5.1 % (interval -6.2 to -4.0), regression: 5.1 % slower".
std::string metric_line(const GateMetric& metric) {
  return fmt::format("{}: {} (interval {}), {}: {}", metric.name, gate_effect_text(metric), gate_interval_text(metric),
                     gate_verdict_name(metric.verdict), metric.reason);
}

struct Annotation {
  std::string level;  ///< error, warning, notice
  std::string title;
  std::string message;
};

std::vector<Annotation> annotations_of(const GateResult& result) {
  std::vector<Annotation> all;
  const auto add = [&](GateVerdict verdict, const std::string& level) {
    for (const GateMetric& metric : result.metrics)
      if (metric.verdict == verdict) all.push_back({level, fmt::format("{}: {}", metric.name, gate_verdict_name(verdict)), metric_line(metric)});
  };
  add(GateVerdict::regression, "error");
  add(GateVerdict::cannot_tell, "warning");
  for (const Finding& finding : result.findings)
    if (finding.severity != Finding::Severity::info) all.push_back({"warning", finding.code, finding.message});
  add(GateVerdict::improvement, "notice");
  return all;
}

std::string github_line(const Annotation& annotation) {
  return fmt::format("::{} title={}::{}\n", annotation.level, command_property("dsanalyze gate, " + annotation.title),
                     command_message(annotation.message));
}

}  // namespace

std::string gate_github_annotations(const GateResult& result) {
  const std::vector<Annotation> all = annotations_of(result);
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most_annotations); ++i) text += github_line(all[i]);
  if (all.size() > most_annotations)
    text += github_line({"notice", "more", fmt::format("{} more: the step's log and the JSON result have them", all.size() - most_annotations)});
  return text;
}

std::string gate_gitlab_report(const GateResult& result) {
  auto issues = nlohmann::ordered_json::array();
  const auto add = [&issues](const std::string& what, const std::string& line, const std::string& severity) {
    std::uint64_t fingerprint = mix(0x6761'7465);
    for (const char letter : what) fingerprint = mix(fingerprint, static_cast<unsigned char>(letter));
    // GitLab shows issues of files only, so the one that holds what is measured stands in.
    issues.push_back({{"description", printable("dsanalyze gate, " + line)},
                      {"check_name", "dsanalyze-gate-" + what},
                      {"fingerprint", fmt::format("{:016x}", fingerprint)},
                      {"severity", severity},
                      {"location", {{"path", ".gitlab-ci.yml"}, {"lines", {{"begin", 1}}}}}});
  };
  for (const GateMetric& metric : result.metrics) {
    if (metric.verdict != GateVerdict::regression && metric.verdict != GateVerdict::cannot_tell) continue;
    add(metric.name, metric_line(metric), metric.verdict == GateVerdict::regression ? "major" : "info");
  }
  if (result.metrics.empty()) add("comparison", fmt::format("{}: {}", gate_verdict_name(result.verdict), result.reason), "info");
  return issues.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

namespace gate {
namespace {

constexpr std::size_t most_source_bytes = 200;

std::string mark_of(GateVerdict verdict) {
  constexpr std::array marks{":x:", ":rocket:", ":white_check_mark:", ":grey_question:"};
  return marks.at(static_cast<std::size_t>(verdict));
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
  const std::string line = xml_text(metric_line(metric));
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
