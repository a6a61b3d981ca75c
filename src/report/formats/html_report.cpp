#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text/text.hpp"
#include "report/document/document.hpp"
#include "report/document/record_documents.hpp"
#include "report/report.hpp"

namespace dsanalyze {
namespace {

using Json = nlohmann::ordered_json;

// What a page may take. Tables and lists come first, which are read without scripts; the records get what all else leaves, within these bounds.
constexpr std::size_t page_room = 590'000;
constexpr std::size_t most_tables_room = 230'000;
constexpr std::size_t most_record_room = 150'000;

/// How much of a record is kept: so many items of a list, so many bytes of a text.
struct Measure {
  std::size_t items;
  std::size_t text;
};

/// Longer texts cut, and of each longer list so many items, evenly spread.
Json cut(const Json& value, const Measure& most) {
  if (value.is_string()) return shortened(value.get_ref<const std::string&>(), most.text);
  if (value.is_array()) {
    Json list = Json::array();
    for (const std::size_t at : report::spread(value.size(), most.items)) list.push_back(cut(value[at], most));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& item : value.items()) object[item.key()] = cut(item.value(), most);
  return object;
}

/// As it stands in a script element.
std::string embedded(const Json& value) { return script_json(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

constexpr std::array<Measure, 6> measures{
    {{1000, report::longest_html_text}, {300, report::longest_html_text}, {100, report::longest_html_text}, {30, 500}, {10, 200}, {3, 100}}};

Json records_of(std::span<const ReportInput> inputs) {
  Json records = Json::array();
  for (const ReportInput& input : inputs)
    records.push_back(Json::parse(std::visit([](const auto& record) { return to_json(record); }, input.record)));
  return records;
}

/// "results" and "shortened" of the island: as much of the records' lists and texts as there is room for, and whether that is not all.
std::string records_json(const Json& records, std::size_t room) {
  Json kept;
  std::string text;
  for (const Measure& most : measures) {
    kept = cut(records, most);
    text = embedded(kept);
    if (text.size() <= room) break;
  }
  return fmt::format(R"("results":{},"shortened":{})", text, kept != records);
}

std::string labels_json(std::span<const ReportInput> inputs) {
  Json labels = Json::array();
  for (const ReportInput& input : inputs) labels.push_back(shortened(input.label, report::longest_html_text));
  return embedded(labels);
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json if_known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json curve_point_json(const CurvePoint& point) {
  Json stalls;
  if (point.ingestion) stalls = {{"compute", point.stalls.compute}, {"prep", point.stalls.prep}, {"fetch", point.stalls.fetch}};
  return {{"x", point.x},
          {"G", or_null(point.ingestion)},
          {"P", point.prep},
          {"F", if_known(point.fetch)},
          {"samples_per_s", point.samples_per_s},
          {"ci95_samples_per_s", {{"low", point.ci95_samples_per_s.low}, {"high", point.ci95_samples_per_s.high}}},
          {"epoch_seconds", if_known(point.epoch_seconds)},
          {"bottleneck", point.bottleneck},
          {"bottleneck_detail", point.detail},
          {"too_close", point.too_close},
          {"extrapolation", point.extrapolation},
          {"stalls", std::move(stalls)}};
}

/// Its values alone: a page has many.
Json curve_row_json(const CurvePoint& point) {
  Json row = Json::array();
  for (const Json& value : curve_point_json(point)) row.push_back(value);
  return row;
}

Json axes_json(const ReportCurves& curves, Json (*json_of)(const CurvePoint& point)) {
  Json axes = Json::array();
  for (const ReportCurve& curve : curves.axes) {
    Json points = Json::array();
    for (const CurvePoint& point : curve.points) points.push_back(json_of(point));
    axes.push_back({{"name", curve.name},
                    {"now", curve.now},
                    {"crossing", or_null(curve.crossing)},
                    {"crossing_text", curve.crossing_text},
                    {"why_absent", curve.why_absent},
                    {"points", std::move(points)}});
  }
  return axes;
}

/// Seven digits of each number: a page shows three, and has room for few.
void shorten_numbers(Json& value) {
  if (value.is_number_float()) value = std::stod(fmt::format("{:.7g}", value.get<double>()));
  if (value.is_structured())
    for (Json& each : value) shorten_numbers(each);
}

/// What the page's sliders look up of each result: null without answers. `columns` names the values of each point of an axis.
std::string live_json(std::span<const ReportInput> inputs) {
  Json live = Json::array();
  for (const ReportInput& input : inputs) {
    Json& of_one = live.emplace_back();
    if (!input.curves.base) continue;
    of_one = {{"command", input.whatif_command},
              {"base", curve_point_json(*input.curves.base)},
              {"columns", Json::array()},
              {"axes", axes_json(input.curves, &curve_row_json)}};
    for (const auto& value : of_one["base"].items()) of_one["columns"].push_back(value.key());
  }
  shorten_numbers(live);
  return embedded(live);
}

std::size_t left(std::size_t room, std::size_t taken) { return room - std::min(room, taken); }

/// The sections with as much of their tables as `most` bytes have room for.
std::string sections_within(const report::Document& document, std::size_t most) {
  std::string html = report::html_sections(document, most_tables_room);
  if (html.size() <= most) return html;
  html = report::html_sections(document, 0);
  std::size_t fits = 0;
  for (std::size_t step = most_tables_room / 2; step > 500; step /= 2) {
    std::string longer = report::html_sections(document, fits + step);
    if (longer.size() > most) continue;
    fits += step;
    html = std::move(longer);
  }
  return html;
}

using Part = std::pair<std::string, std::string>;

/// The template with its {{places}} filled; what is filled in is not looked at again.
std::string filled(const std::string& page, std::span<const Part> parts) {
  std::string html;
  std::size_t at = 0;
  for (;;) {
    const std::size_t open = page.find("{{", at);
    const std::size_t close = open == std::string::npos ? open : page.find("}}", open);
    if (close == std::string::npos) return html + page.substr(at);
    html += page.substr(at, open - at);
    const std::string name = page.substr(open + 2, close - open - 2);
    const auto part = std::ranges::find(parts, name, &Part::first);
    if (part != parts.end()) html += part->second;
    at = close + 2;
  }
}

}  // namespace

std::string html_report(std::span<const ReportInput> inputs, const HtmlAssets& assets) {
  const report::Document document = report::report_document(inputs);
  const Json records = records_of(inputs);
  const std::string live = live_json(inputs);
  const std::string charts = script_json(report::charts_json(document));
  const std::size_t scaffold = assets.page.size() + assets.style.size() + assets.scripts.size() + live.size() + charts.size();
  const std::size_t least_record = embedded(cut(records, measures.back())).size();
  const std::string sections = sections_within(document, left(page_room, scaffold + least_record));
  const std::size_t record_room = std::min(most_record_room, left(page_room, scaffold + sections.size()));
  const std::string island =
      fmt::format(R"({{"labels":{},{},"live":{},"charts":{}}})", labels_json(inputs), records_json(records, record_room), live, charts);
  const std::array<Part, 8> parts{{{"policy", assets.policy},
                                   {"title", html_text(shortened(document.title, report::longest_html_text))},
                                   {"style", assets.style},
                                   {"subtitle", html_text(shortened(document.subtitle, report::longest_html_text))},
                                   {"navigation", report::html_navigation(document)},
                                   {"sections", sections},
                                   {"record", island},
                                   {"scripts", assets.scripts}}};
  return filled(assets.page, parts);
}

std::string json_report(std::span<const ReportInput> inputs) {
  const ToolRecord tool = this_tool();
  Json document = {{"schema", "dsanalyze.report/1"},
                   {"tool", {{"name", tool.name}, {"version", tool.version}, {"commit", tool.commit}}},
                   {"results", Json::array()}};
  for (const ReportInput& input : inputs) {
    Json result = {{"label", input.label},
                   {"record", Json::parse(std::visit([](const auto& record) { return to_json(record); }, input.record))},
                   {"curves", nullptr}};
    if (std::holds_alternative<ProfileResult>(input.record)) result["curves"] = axes_json(input.curves, &curve_point_json);
    document["results"].push_back(std::move(result));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dsanalyze
