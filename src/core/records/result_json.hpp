#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text/json_reader.hpp"
#include "result.hpp"
#include "search_result.hpp"

namespace dsanalyze {

// Pieces that the result records share. Keys keep the order in which they are added.
using Json = nlohmann::ordered_json;

Json tool_json(const ToolRecord& tool);
Json interval_json(const Interval& interval);
Json findings_json(const std::vector<Finding>& findings);
Json advice_json(const std::vector<AdviceRecord>& advice);
Json search_json(const SearchResult& result);

// What reads them again. All throw UsageError that names the field.
constexpr double most_number = std::numeric_limits<double>::max();
constexpr double most_record_bytes = 4e18;  ///< of bytes that are shown as a whole number
constexpr std::int64_t most_integer = std::numeric_limits<std::int64_t>::max();
/// A whole number of things, none below 0.
std::uint64_t read_count(JsonObject& object, std::string_view key);
/// The same where it fits an int.
int read_small(JsonObject& object, std::string_view key);
/// What may bind: "gpu", "cpu" or "io".
std::string read_resource(JsonObject& object, std::string_view key);
/// `schema` is "dsanalyze.profile/1", `command` what writes such records.
void require_schema(JsonObject& root, const std::string& schema, const std::string& command);
ToolRecord read_tool(JsonObject object);
/// `low` and `high` bound both ends.
Interval read_interval(JsonObject parent, std::string_view key, double low, double high);
std::vector<std::string> read_texts(JsonObject& object, std::string_view key);
std::vector<Finding> read_findings(JsonObject& root);
std::vector<AdviceRecord> read_advice(JsonObject& root);
SearchResult search_from_json(JsonObject object);

/// The document as text: indented, doubles in their shortest form that reads back equal, bytes that are not UTF-8 (file names) replaced.
std::string document_text(const Json& document);

/// null for what is not known.
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <typename T>
void add_if_known(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

Json attained_json(const ProfileResult::Attained& attained);
ProfileResult::Attained read_attained(JsonObject object);
Json training_json(const TrainingRecord& training);
TrainingRecord read_training(JsonObject object);

/// Adds "sharing", "jobs" and "trials", those that are there.
void add_jobs(Json& document, const ProfileResult& result);
void read_jobs(JsonObject& root, ProfileResult& result);
/// Adds "partition" and "ranks", those that are there.
void add_ranks(Json& document, const ProfileResult& result);
void read_ranks(JsonObject& root, ProfileResult& result);

Json settings_json(const ProfileSettings& settings);
/// Throws UsageError that names the field. Fields that are not there keep their defaults; the range of values is ProfileSettings::validate()'s
/// matter.
ProfileSettings settings_from_json(JsonObject object);

/// A count, where it is known.
std::optional<std::uint64_t> read_known_count(JsonObject& object, std::string_view key);

/// Whether the key is there with anything but null.
bool is_known(JsonObject& object, std::string_view key);

}  // namespace dsanalyze
