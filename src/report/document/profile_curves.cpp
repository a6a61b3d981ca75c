#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"
#include "profile_text.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

/// How one of the curves is shown.
struct CurveFactor {
  std::string axis;  ///< ReportCurve::name
  std::string id, title, text, x_label, column;
  double shown_as = 1;  ///< x times this is shown
  std::string unit{};
};

std::string x_text(const CurveFactor& factor, double x) { return format_number(x * factor.shown_as) + factor.unit; }

const ReportCurve* curve_of(const CurveFactor& factor, const ProfileView& view) {
  const auto curve = std::ranges::find(view.curves->axes, factor.axis, &ReportCurve::name);
  return curve == view.curves->axes.end() || curve->points.empty() ? nullptr : &*curve;
}

bool knows_fetch(const ReportCurve& curve) {
  return std::ranges::all_of(curve.points, [](const CurvePoint& point) { return point.fetch > 0; });
}

Table one_curves_table(const CurveFactor& factor, const ReportCurve& curve) {
  const bool with_ingestion = std::ranges::any_of(curve.points, [](const CurvePoint& point) { return point.ingestion.has_value(); });
  const bool with_fetch = knows_fetch(curve);
  Table table{factor.title + ", samples/s by the model", {{factor.column, Align::left}, {"training reaches"}}};
  if (with_fetch) table.columns.push_back({"fetch [F]"});
  table.columns.push_back({"prep [P]"});
  if (with_ingestion) table.columns.push_back({"accelerators [G]"});
  table.columns.push_back({"bottleneck", Align::left});
  for (const CurvePoint& point : curve.points) {
    std::vector<std::string> cells{x_text(factor, point.x), format_rate(point.samples_per_s, point.ci95_samples_per_s)};
    if (with_fetch) cells.push_back(format_number(point.fetch));
    cells.push_back(format_number(point.prep));
    if (with_ingestion) cells.push_back(point.ingestion ? format_number(*point.ingestion) : "-");
    cells.push_back(resource_words(point.bottleneck) + " " + resource_letter(point.bottleneck));
    table.add(cells);
  }
  return table;
}

Table several_curves_table(const CurveFactor& factor, ProfileViews views) {
  Table table{factor.title + ", samples/s by the model", {{factor.column, Align::left}}};
  std::map<double, std::vector<std::string>> rows;
  std::size_t column = 0;
  for (const ProfileView& view : views) {
    const ReportCurve* curve = curve_of(factor, view);
    if (curve == nullptr) continue;
    table.columns.push_back({view.label});
    for (const CurvePoint& point : curve->points) {
      auto& cells = rows[point.x];
      cells.resize(column, "-");
      cells.push_back(format_rate(point.samples_per_s, point.ci95_samples_per_s));
    }
    ++column;
  }
  for (auto& [x, cells] : rows) {
    cells.resize(column, "-");
    cells.insert(cells.begin(), x_text(factor, x));
    table.add(cells);
  }
  return table;
}

Chart::Series line(const std::string& label, const std::string& colour, Chart::Series::Line look) { return {label, colour, {}, look}; }

void add_lines(const CurveFactor& factor, const ReportCurve& curve, Chart& chart) {
  using Line = Chart::Series::Line;
  Chart::Series reached = line("training reaches", "result", Line::solid), fetch = line("fetch [F]", "fetch", Line::dashed),
                prep = line("prep [P]", "prep", Line::dashed), ingestion = line("accelerators [G]", "compute", Line::dashed);
  for (const CurvePoint& point : curve.points) {
    const double x = point.x * factor.shown_as;
    reached.points.push_back({x, point.samples_per_s, point.ci95_samples_per_s.low, point.ci95_samples_per_s.high});
    fetch.points.push_back({x, point.fetch});
    prep.points.push_back({x, point.prep});
    if (point.ingestion) ingestion.points.push_back({x, *point.ingestion});
  }
  if (!knows_fetch(curve)) fetch.points.clear();
  // A limit that is many times higher than all else would press the lines that matter to the ground: it is cut at four times the highest rate
  // reached.
  const double highest = std::ranges::max_element(curve.points, {}, &CurvePoint::samples_per_s)->samples_per_s;
  for (Chart::Series* series : {&fetch, &prep, &ingestion}) {
    std::erase_if(series->points, [&](const Chart::Point& point) { return point.y > 4 * highest; });
    if (!series->points.empty()) chart.series.push_back(std::move(*series));
  }
  chart.series.push_back(std::move(reached));
}

Section curve_section(const CurveFactor& factor, ProfileViews views) {
  Section section{factor.id, factor.title};
  Chart chart;
  chart.name = factor.id;
  chart.title = factor.title;
  chart.x_label = factor.x_label;
  chart.y_label = "samples/s";
  const ReportCurve* last = nullptr;
  std::size_t count = 0;
  for (const ProfileView& view : views) {
    const ReportCurve* curve = curve_of(factor, view);
    if (curve == nullptr) continue;
    last = curve;
    ++count;
    const std::string whose = views.size() > 1 ? view.label + ": " : "";
    if (const std::string assumed = assumptions_of_models(*view.profile); !assumed.empty())
      section.blocks.emplace_back(Paragraph{whose + assumed, Paragraph::Tone::muted});
    if (views.size() == 1) {
      add_lines(factor, *curve, chart);
    } else {
      Chart::Series series = line(view.label, "", Chart::Series::Line::solid);
      for (const CurvePoint& point : curve->points)
        series.points.push_back({point.x * factor.shown_as, point.samples_per_s, point.ci95_samples_per_s.low, point.ci95_samples_per_s.high});
      chart.series.push_back(std::move(series));
    }
    if (views.size() == 1) chart.marks.push_back({curve->now * factor.shown_as, "now"});
    if (curve->crossing) chart.marks.push_back({*curve->crossing * factor.shown_as, views.size() == 1 ? "enough" : view.label});
    if (!curve->crossing_text.empty()) section.blocks.emplace_back(Paragraph{whose + curve->crossing_text});
  }
  if (count == 0) return section;
  const bool alone = views.size() == 1;
  section.blocks.emplace_back(Figure{"",
                                     factor.text +
                                         " All else stays as measured; dsanalyze whatif gives the same answers. Limits more than four times higher "
                                         "are in the table alone.",
                                     {std::move(chart)},
                                     alone ? one_curves_table(factor, *last) : several_curves_table(factor, views),
                                     Folding::folded});
  return section;
}

/// What was measured with fewer cores, beside the law that was fitted to it.
void add_measured_cores(ProfileViews views, Section& section) {
  if (section.blocks.empty() || views.size() != 1) return;
  const auto& measured = views.front().profile->prep_by_cores;
  auto* figure = std::get_if<Figure>(&section.blocks.back());
  if (measured.empty() || figure == nullptr) return;
  Chart::Series series{"prep as measured", "prep", {}, Chart::Series::Line::none};
  Table table{"prep as measured, samples/s", {{"cores", Align::left}, {"prep [P]"}}};
  for (const CorePoint& point : measured) {
    Chart::Point shown{static_cast<double>(point.cores), point.samples_per_s};
    if (point.ci95_samples_per_s) {
      shown.low = point.ci95_samples_per_s->low;
      shown.high = point.ci95_samples_per_s->high;
    }
    series.points.push_back(shown);
    table.add({fmt::format("{}", point.cores),
               point.ci95_samples_per_s ? format_rate(point.samples_per_s, *point.ci95_samples_per_s) : format_number(point.samples_per_s)});
  }
  figure->charts.front().series.push_back(std::move(series));
  section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
}

}  // namespace

std::vector<Section> curve_sections(ProfileViews views) {
  const std::vector<CurveFactor> factors{
      {"workers", "workers-curve", "Samples/s by num_workers", "What training would reach with other numbers of workers.", "workers of each rank",
       "workers"},
      {"cache_fraction", "cache-curve", "Throughput against cache size",
       "What training would reach with another share of the dataset in the cache [DS-Analyzer, Figure 16].", "share of the dataset in the cache, %",
       "cached", 100, " %"},
      {"cores", "cores-curve", "Throughput against cores", "What training would reach with other numbers of cores [DS-Analyzer, Figure 4].", "cores",
       "cores"},
      {"accelerator_speed", "accelerator-curve", "Throughput against accelerator speed",
       "What training would reach with accelerators that are so many times as fast.", "speed of the accelerators, times today's", "speed", 1, "x"},
      {"storage_factor", "storage-curve", "Throughput against storage speed", "What training would reach with storage that is so many times as fast.",
       "speed of the storage, times today's", "speed", 1, "x"}};
  std::vector<Section> sections;
  for (const CurveFactor& factor : factors) {
    sections.push_back(curve_section(factor, views));
    if (factor.axis == "cores") add_measured_cores(views, sections.back());
  }
  return sections;
}

}  // namespace dsanalyze::report
