#include <algorithm>

#include "core/records/fields/doctor_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

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
