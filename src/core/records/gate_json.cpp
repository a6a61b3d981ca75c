#include <fmt/format.h>

#include <array>

#include "gate_result.hpp"
#include "result_json.hpp"

namespace dsanalyze {
namespace {

// Names in the order of the enums' values.
const std::array<std::string, 4> verdict_names = {"regression", "improvement", "no change", "cannot tell"};
const std::array<std::string, 3> unit_names = {"run", "session", "pair"};
const std::array<std::string, 2> scale_names = {"ratio", "difference"};

template <typename Enum, std::size_t count>
Enum read_name(JsonObject& object, std::string_view key, const std::array<std::string, count>& names) {
  const std::string found = object.choice(key, {names.begin(), names.end()});
  std::size_t at = 0;
  while (names[at] != found) ++at;
  return static_cast<Enum>(at);
}

Json side_json(const GateSide& side) {
  return {{"sources", side.sources},
          {"runs", side.runs},
          {"sessions", side.sessions},
          {"tools", side.tools},
          {"calibration_passes_per_s", or_null(side.calibration)}};
}

Json metric_json(const GateMetric& metric) {
  return {{"name", metric.name},
          {"scale", scale_names[static_cast<std::size_t>(metric.scale)]},
          {"baseline", metric.baseline},
          {"current", metric.current},
          {"observations", {{"baseline", metric.observations_baseline}, {"current", metric.observations_current}}},
          {"effect", metric.effect},
          {"interval", metric.interval ? interval_json(*metric.interval) : Json(nullptr)},
          {"verdict", gate_verdict_name(metric.verdict)},
          {"reason", metric.reason},
          {"more", or_null(metric.more)}};
}

GateSide read_side(JsonObject object) {
  return {read_texts(object, "sources"), read_count(object, "runs"), read_count(object, "sessions"), read_texts(object, "tools"),
          object.optional_number("calibration_passes_per_s", 0, most_number)};
}

GateMetric read_metric(JsonObject& object) {
  GateMetric metric;
  metric.name = object.text("name");
  metric.scale = read_name<GateScale>(object, "scale", scale_names);
  metric.baseline = object.number("baseline", -most_number, most_number);
  metric.current = object.number("current", -most_number, most_number);
  JsonObject observations = object.object("observations");
  metric.observations_baseline = read_count(observations, "baseline");
  metric.observations_current = read_count(observations, "current");
  metric.effect = object.number("effect", -most_number, most_number);
  if (auto interval = object.optional_object("interval")) {
    metric.interval = Interval{interval->number("low", -most_number, most_number), interval->number("high", -most_number, most_number)};
    if (metric.interval->low > metric.interval->high) object.fail("interval", "found low above high");
  }
  metric.verdict = read_name<GateVerdict>(object, "verdict", verdict_names);
  metric.reason = object.text("reason");
  metric.more = object.optional_integer("more", 0, most_integer);
  return metric;
}

}  // namespace

std::string gate_verdict_name(GateVerdict verdict) { return verdict_names[static_cast<std::size_t>(verdict)]; }
std::string gate_unit_name(GateUnit unit) { return unit_names[static_cast<std::size_t>(unit)]; }

std::string gate_count_text(GateUnit unit, std::size_t count) { return fmt::format("{} {}{}", count, gate_unit_name(unit), count == 1 ? "" : "s"); }

int gate_exit_code(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::regression:
      return 3;
    case GateVerdict::cannot_tell:
      return 4;
    case GateVerdict::improvement:
    case GateVerdict::no_change:
      break;
  }
  return 0;
}

std::string to_json(const GateResult& result) {
  Json document = {{"schema", "dsanalyze.gate/1"},
                   {"tool", tool_json(result.tool)},
                   {"mode", result.mode},
                   {"verdict", gate_verdict_name(result.verdict)},
                   {"reason", result.reason},
                   {"exit_code", gate_exit_code(result.verdict)},
                   {"min_effect", result.min_effect},
                   {"confidence", result.confidence},
                   {"unit", gate_unit_name(result.unit)},
                   {"baseline", side_json(result.baseline)},
                   {"current", side_json(result.current)},
                   {"ignored", Json::array()},
                   {"normalized", result.normalized},
                   {"metrics", Json::array()},
                   {"absent", Json::array()},
                   {"seconds", or_null(result.seconds)}};
  for (const GateDifference& each : result.ignored)
    document["ignored"].push_back({{"field", each.field}, {"baseline", each.baseline}, {"current", each.current}});
  for (const GateMetric& metric : result.metrics) document["metrics"].push_back(metric_json(metric));
  for (const GateAbsence& each : result.absent) document["absent"].push_back({{"metric", each.metric}, {"reason", each.reason}});
  document["findings"] = findings_json(result.findings);
  return document_text(document);
}

GateResult gate_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  require_schema(root, "dsanalyze.gate/1", "dsanalyze gate");
  GateResult result;
  result.tool = read_tool(root.object("tool"));
  result.mode = root.choice("mode", {"files", "commands"});
  result.verdict = read_name<GateVerdict>(root, "verdict", verdict_names);
  result.reason = root.text("reason");
  result.min_effect = root.number("min_effect", 0, 1);
  result.confidence = root.number("confidence", 0, 1);
  result.unit = read_name<GateUnit>(root, "unit", unit_names);
  result.baseline = read_side(root.object("baseline"));
  result.current = read_side(root.object("current"));
  for (JsonObject& each : root.objects("ignored")) result.ignored.push_back({each.text("field"), each.text("baseline"), each.text("current")});
  result.normalized = root.boolean("normalized");
  for (JsonObject& each : root.objects("metrics")) result.metrics.push_back(read_metric(each));
  for (JsonObject& each : root.objects("absent")) result.absent.push_back({each.text("metric"), each.text("reason")});
  result.seconds = root.optional_number("seconds", 0, most_number);
  result.findings = read_findings(root);
  return result;
}

}  // namespace dsanalyze
