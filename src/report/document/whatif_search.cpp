#include <fmt/format.h>

#include "core/records/rate_text.hpp"
#include "record_documents.hpp"
#include "whatif_text.hpp"

namespace dsanalyze::report {
namespace {

Chart front_chart(const SearchResult& search) {
  Chart chart;
  chart.name = "search-front";
  chart.title = "cost of an epoch over its time, for set-ups than which nothing is both cheaper and faster";
  chart.x_label = "seconds an epoch";
  chart.y_label = search.currency + " an epoch";
  chart.x_scale = Chart::Scale::logarithmic;
  Chart::Series series{"front", "result", {}};
  for (const SearchPoint& point : search.front) series.points.push_back({point.epoch_seconds, point.cost_per_epoch});
  chart.series.push_back(std::move(series));
  if (search.target) chart.marks.push_back({search.target->epoch_seconds, "target"});
  return chart;
}

}  // namespace

Section whatif_search_section(const SearchResult& search) {
  Section section{"search", "The cheapest set-ups"};
  section.blocks.emplace_back(List{search.conclusions});
  Table table{
      "what more speed costs, the cheapest first",
      {{"set-up", Align::left}, {"an epoch costs"}, {"an hour costs"}, {"an epoch takes"}, {"samples/s"}, {"binds", Align::left}, {"simulated"}}};
  bool close = false;
  bool far = false;
  for (const SearchPoint& point : search.front) {
    close = close || point.close_to_cheaper;
    far = far || point.extrapolation > most_extrapolation;
    table.add({setup_text(point.setup), format_cost(point.cost_per_epoch, search.currency), format_cost(point.cost_per_hour, search.currency),
               format_seconds(point.epoch_seconds) + (point.close_to_cheaper ? " *" : ""), format_rate(point.samples_per_s, point.ci95_samples_per_s),
               resource_words(point.bottleneck) + " " + resource_letter(point.bottleneck) + (point.too_close ? " ?" : "") +
                   (point.extrapolation > most_extrapolation ? " ~" : ""),
               point.simulated ? format_number(point.simulated->samples_per_s) : "-"});
  }
  const std::string text = fmt::format(
      "{}; {} set-ups by the closed form{}. Nothing else is both cheaper an epoch and faster.{}{}", price_list_text(search),
      format_number(static_cast<double>(search.setups)), search.simulated > 0 ? fmt::format(", {} simulated", search.simulated) : "",
      close ? " * not surely faster than the cheaper one above: their intervals overlap." : "", far ? " ~ " + far_extrapolated_text() + "." : "");
  if (!table.rows.empty()) {
    std::vector<Chart> charts;
    if (table.rows.size() > 1) charts.push_back(front_chart(search));
    section.blocks.emplace_back(Figure{"What more speed costs", text, std::move(charts), std::move(table)});
  }
  return section;
}

}  // namespace dsanalyze::report
