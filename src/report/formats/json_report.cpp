#include <nlohmann/json.hpp>

#include "report/report.hpp"

namespace dsanalyze {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json curve_json(const std::optional<ReportCurve>& curve, const char* x_name) {
  if (!curve) return nullptr;
  Json points = Json::array();
  for (const CurvePoint& point : curve->points)
    points.push_back({{x_name, point.x},
                      {"G", or_null(point.ingestion)},
                      {"P", point.prep},
                      {"F", point.fetch},
                      {"samples_per_s", point.samples_per_s},
                      {"ci95_samples_per_s", {{"low", point.ci95_samples_per_s.low}, {"high", point.ci95_samples_per_s.high}}},
                      {"bottleneck", point.bottleneck}});
  return {{"now", curve->now}, {"crossing", or_null(curve->crossing)}, {"crossing_text", curve->crossing_text}, {"points", std::move(points)}};
}

}  // namespace

std::string json_report(std::span<const ReportInput> inputs) {
  const ToolRecord tool = this_tool();
  Json document = {{"schema", "dsanalyze.report/1"},
                   {"tool", {{"name", tool.name}, {"version", tool.version}, {"commit", tool.commit}}},
                   {"results", Json::array()}};
  for (const ReportInput& input : inputs) {
    Json result = {{"label", input.label},
                   {"record", Json::parse(std::visit([](const auto& record) { return to_json(record); }, input.record))},
                   {"curves", nullptr}};
    if (std::holds_alternative<ProfileResult>(input.record))
      result["curves"] = {{"cache", curve_json(input.curves.cache, "cache_fraction")},
                          {"cores", curve_json(input.curves.cores, "cores")},
                          {"accelerator_speed", curve_json(input.curves.accelerator_speed, "accelerator_speed")}};
    document["results"].push_back(std::move(result));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dsanalyze
