#include "result_json.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/records/fields/doctor_fields.hpp"
#include "core/records/fields/gate_fields.hpp"
#include "core/records/fields/result_fields.hpp"
#include "core/records/fields/share_fields.hpp"

namespace dsanalyze {

template struct RecordJson<ToolRecord>;
template struct RecordJson<Finding>;
template struct RecordJson<AdviceRecord>;
template struct RecordJson<ProfileResult::Attained>;

std::string error_json(ErrorKind kind, const std::string& message, int exit_code) {
  return document_text({{"schema", "dsanalyze.error/1"},
                        {"tool", record_json(this_tool())},
                        {"error", {{"kind", enum_name(kind)}, {"message", message}, {"exit_code", exit_code}}}});
}

std::string to_json(const DatasetCommandResult& result) { return document_text(record_json(result)); }

std::string to_json(const ShareResult& result) { return document_text(record_json(result)); }

ShareResult share_from_json(std::string_view text, const std::string& source) {
  return record_from_json<ShareResult>(text, source, UnknownKeys::refused);
}

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

Json Fields<DoctorResult>::counts(const DoctorResult& result) {
  Json counts = Json::object();
  for (const char* name : enum_names<DoctorStatus>) counts[name] = result.count(*enum_named<DoctorStatus>(name));
  return counts;
}

void Fields<DoctorResult>::check(JsonObject& object, const DoctorResult& result) {
  JsonObject counts = object.object("counts");
  for (const char* name : enum_names<DoctorStatus>) {
    const auto counted = static_cast<std::int64_t>(result.count(*enum_named<DoctorStatus>(name)));
    if (counts.integer(name, 0, std::numeric_limits<int>::max()) != counted)
      counts.fail(name, "found another number than /checks has of this status");
  }
}

std::string_view doctor_status_name(DoctorStatus status) { return enum_names<DoctorStatus>.at(static_cast<std::size_t>(status)); }

std::size_t DoctorResult::count(DoctorStatus status) const {
  return static_cast<std::size_t>(std::ranges::count_if(checks, [&](const DoctorCheck& check) { return check.status == status; }));
}

std::string to_json(const DoctorResult& result) { return document_text(record_json(result)); }

DoctorResult doctor_from_json(std::string_view text, const std::string& source) {
  return record_from_json<DoctorResult>(text, source, UnknownKeys::refused);
}

}  // namespace dsanalyze
