#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "base/text/markup.hpp"
#include "base/text/text.hpp"
#include "gate.hpp"
#include "views.hpp"

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

struct Annotation {
  std::string level;  ///< error, warning, notice
  std::string title;
  std::string message;
};

std::vector<Annotation> annotations_of(const GateResult& result) {
  std::vector<Annotation> all;
  const auto add = [&](GateVerdict verdict, const std::string& level) {
    for (const GateMetric& metric : result.metrics)
      if (metric.verdict == verdict)
        all.push_back({level, fmt::format("{}: {}", metric.name, gate_verdict_name(verdict)), gate::metric_line(metric)});
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
    add(metric.name, gate::metric_line(metric), metric.verdict == GateVerdict::regression ? "major" : "info");
  }
  if (result.metrics.empty()) add("comparison", fmt::format("{}: {}", gate_verdict_name(result.verdict), result.reason), "info");
  return issues.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dsanalyze
