#include <fmt/format.h>

#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"
#include "core/records/fields/resume_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

std::string to_json(const ResumeResult& result) { return document_text(record_json(result)); }

ResumeResult resume_result_of(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw UsageError("what the command's loader did cannot be read");
  const auto words = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? printable(json[key].get<std::string>()) : std::string();
  };
  const auto number = [](const Json& object, const char* key) {
    return object.contains(key) && object[key].is_number_unsigned() ? object[key].get<std::uint64_t>() : std::uint64_t{0};
  };
  ResumeResult result;
  result.loader = words("loader");
  if (const std::string error = words("error"); !error.empty()) throw Error(fmt::format("the loader {}: {}", result.loader, error));
  result.dataset_class = words("dataset_class");
  result.by = words("by");
  result.workers_refused = words("refused");
  if (json.contains("workers") && json["workers"].is_array())
    for (const Json& count : json["workers"])
      if (count.is_number_unsigned()) result.workers.push_back(count.get<std::uint64_t>());
  result.runs = number(json, "runs");
  result.stops = number(json, "stops");
  result.samples = number(json, "samples");
  result.lost = number(json, "lost");
  result.repeated = number(json, "repeated");
  result.same_order = json.contains("same_order") && json["same_order"].is_boolean() && json["same_order"].get<bool>();
  if (result.samples == 0) throw UsageError("what the command's loader did cannot be read: it has no samples");
  if (json.contains("fault") && json["fault"].is_object()) {
    const Json& fault = json["fault"];
    const auto text_of = [&](const char* key) {
      return fault.contains(key) && fault[key].is_string() ? printable(fault[key].get<std::string>()) : std::string();
    };
    result.fault = ResumeResult::Fault{text_of("what"), text_of("sample"), number(fault, "epoch"), number(fault, "run"), {}};
    if (fault.contains("stops") && fault["stops"].is_array())
      for (const Json& stop : fault["stops"])
        if (stop.is_number()) result.fault->stops.push_back(stop.get<double>());
  }
  return result;
}

}  // namespace dsanalyze
