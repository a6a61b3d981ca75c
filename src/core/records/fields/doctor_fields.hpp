#pragma once

#include "core/records/doctor_result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<DoctorCommand> {
  using R = DoctorCommand;
  static constexpr std::tuple list{field("where", &R::where), field("command", &R::command)};
};

template <>
struct Fields<DoctorCheck> {
  using R = DoctorCheck;
  static void write_fix(Json& object, const R& check) { object["fix"] = check.fix.empty() ? Json(nullptr) : Json(check.fix); }
  static void read_fix(JsonObject& object, R& check) {
    const char* const key = object.has(key_of_version_1) ? key_of_version_1 : "fix";
    check.fix = object.has(key) ? object.optional_text(key).value_or("") : object.text(key);
  }
  static constexpr const char* key_of_version_1 = "mend";
  static constexpr std::tuple list{field("code", &R::code),       field("group", &R::group),      field("title", &R::title),
                                   field("status", &R::status),   field("found", &R::found),      field("why", &R::why),
                                   custom(&write_fix, &read_fix), field("commands", &R::commands)};
};

template <>
struct Fields<DoctorResult> {
  using R = DoctorResult;
  static constexpr const char* schema = "dsanalyze.doctor/2";
  static constexpr int most_cores = std::numeric_limits<int>::max();
  static void write_schema(Json& object, const R& /*record*/) { object["schema"] = schema; }
  static void read_schema(JsonObject& object, R& /*record*/) { object.choice("schema", {schema, "dsanalyze.doctor/1"}); }
  /// How many checks are of each status.
  static Json counts(const R& record);
  static void check(JsonObject& object, const R& record);
  static constexpr std::tuple list{custom(&write_schema, &read_schema),
                                   field("tool", &R::tool),
                                   group("host", field("cpu_model", &R::cpu_model), field("cores", &R::cores_usable).in(0, most_cores),
                                         field("cores_online", &R::cores_online).in(1, most_cores), field("memory_bytes", &R::memory_usable_bytes),
                                         field("kernel", &R::kernel), field("container", &R::container).or_null()),
                                   field("dataset", &R::dataset).or_null(),
                                   derived("counts", &counts),
                                   field("checks", &R::checks)};
};

}  // namespace dsanalyze
