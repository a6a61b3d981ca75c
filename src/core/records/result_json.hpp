#pragma once

#include "fields.hpp"
#include "result.hpp"
#include "search_result.hpp"

namespace dsanalyze {

// The records that are part of several others; each is instantiated in the source of its own table.

extern template Json record_json(const ToolRecord& record);
extern template ToolRecord read_record(JsonObject object);
extern template Json record_json(const Finding& record);
extern template Finding read_record(JsonObject object);
extern template Json record_json(const AdviceRecord& record);
extern template AdviceRecord read_record(JsonObject object);
extern template Json record_json(const ProfileResult::Attained& record);
extern template ProfileResult::Attained read_record(JsonObject object);

extern template Json record_json(const TrainingRecord& record);
extern template TrainingRecord read_record(JsonObject object);
extern template Json record_json(const JobRecord& record);
extern template JobRecord read_record(JsonObject object);
extern template Json record_json(const SharingRecord& record);
extern template SharingRecord read_record(JsonObject object);
extern template Json record_json(const SearchTrialRecord& record);
extern template SearchTrialRecord read_record(JsonObject object);
extern template Json record_json(const RankRecord& record);
extern template RankRecord read_record(JsonObject object);
extern template Json record_json(const PartitionRecord& record);
extern template PartitionRecord read_record(JsonObject object);

template <>
Json record_json(const ByteAmount& amount);
template <>
ByteAmount read_record(JsonObject object);
extern template Json record_json(const ProfileSettings& record);
extern template ProfileSettings read_record(JsonObject object);

// TEMPORARY
Json search_json(const SearchResult& result);
SearchResult search_from_json(JsonObject object);
inline Json tool_json(const ToolRecord& tool) { return record_json(tool); }
inline ToolRecord read_tool(JsonObject object) { return read_record<ToolRecord>(object); }
inline Json findings_json(const std::vector<Finding>& findings) { return value_json(findings); }
inline Json advice_json(const std::vector<AdviceRecord>& advice) { return value_json(advice); }
inline Json attained_json(const ProfileResult::Attained& attained) { return record_json(attained); }
inline ProfileResult::Attained read_attained(JsonObject object) { return read_record<ProfileResult::Attained>(object); }
inline std::vector<Finding> read_findings(JsonObject& root) { return read_value<std::vector<Finding>>(root, "findings", {}); }
inline std::vector<AdviceRecord> read_advice(JsonObject& root) { return read_value<std::vector<AdviceRecord>>(root, "advice", {}); }
inline std::uint64_t read_count(JsonObject& object, std::string_view key) { return static_cast<std::uint64_t>(object.integer(key, 0, most_integer)); }
inline int read_small(JsonObject& object, std::string_view key) { return static_cast<int>(object.integer(key, 0, std::numeric_limits<int>::max())); }
inline std::string read_resource(JsonObject& object, std::string_view key) { return object.choice(key, {"gpu", "cpu", "io"}); }
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <typename T>
void add_if_known(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

}  // namespace dsanalyze
