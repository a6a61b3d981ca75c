#include <fmt/format.h>

#include "core/records/fields/gate_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

void Fields<GateMetric>::read_interval(JsonObject& object, GateMetric& metric) {
  auto interval = object.optional_object("interval");
  if (!interval) return;
  metric.interval = Interval{interval->number("low", -most_number, most_number), interval->number("high", -most_number, most_number)};
  if (metric.interval->low > metric.interval->high) object.fail("interval", "found low above high");
}

std::string gate_verdict_name(GateVerdict verdict) { return enum_name(verdict); }
std::string gate_unit_name(GateUnit unit) { return enum_name(unit); }

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

std::string to_json(const GateResult& result) { return document_text(record_json(result)); }

GateResult gate_from_json(std::string_view text, const std::string& source) {
  return record_from_json<GateResult>(text, source, UnknownKeys::ignored);
}

}  // namespace dsanalyze
