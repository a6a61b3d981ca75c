#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "document_render.hpp"

namespace dsanalyze::report {
namespace {

using Json = nlohmann::ordered_json;

/// Enough digits for a line on a screen; the record beside holds them all.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 5);
  return unit > 0 && std::isfinite(unit) ? std::round(value / unit) * unit : value;
}

Json point_json(const Chart::Point& point) {
  Json list = {rounded(point.x), rounded(point.y)};
  if (point.low && point.high) list.insert(list.end(), {rounded(*point.low), rounded(*point.high)});
  return list;
}

Json series_json(const Chart::Series& series) {
  constexpr std::array lines{"solid", "dashed", "none"};
  Json points = Json::array();
  for (const Chart::Point& point : series.points) points.push_back(point_json(point));
  return {
      {"label", series.label}, {"colour", series.colour}, {"line", lines.at(static_cast<std::size_t>(series.line))}, {"points", std::move(points)}};
}

Json chart_json(const Chart& chart) {
  constexpr std::array kinds{"lines", "points", "bars"};
  const auto scale = [](Chart::Scale value) { return value == Chart::Scale::linear ? "linear" : "logarithmic"; };
  Json object = {{"title", chart.title},
                 {"kind", kinds.at(static_cast<std::size_t>(chart.kind))},
                 {"x", {{"label", chart.x_label}, {"scale", scale(chart.x_scale)}}},
                 {"y", {{"label", chart.y_label}, {"scale", scale(chart.y_scale)}}},
                 {"categories", chart.categories},
                 {"series", Json::array()},
                 {"marks", Json::array()}};
  for (const Chart::Series& series : chart.series) object["series"].push_back(series_json(series));
  for (const Chart::Mark& mark : chart.marks) object["marks"].push_back({{"x", rounded(mark.x)}, {"label", mark.label}});
  return object;
}

}  // namespace

std::string charts_json(const Document& document) {
  Json object = Json::object();
  for (const Section& section : document.sections)
    for (const Block& block : section.blocks)
      if (const auto* figure = std::get_if<Figure>(&block))
        for (const Chart& chart : figure->charts) object[chart.name] = chart_json(chart);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dsanalyze::report
