#include "console_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "console_table.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/whatif_text.hpp"

namespace dsanalyze::console {
namespace {

std::string binding_word(const SearchPoint& point) {
  const std::string word = point.bottleneck == "gpu" ? "[G]" : point.bottleneck == "cpu" ? "[P]" : "[F]";
  return word + (point.too_close ? " ?" : "") + (point.extrapolation > most_extrapolation ? " ~" : "");
}

/// A line of figures for each point, its parts below.
std::string front_lines(const SearchResult& search, std::size_t width) {
  Table table({{"an epoch", Table::Align::right}, {"takes", Table::Align::right}, {"samples/s", Table::Align::left}, {"binds", Table::Align::left}},
              2);
  for (const SearchPoint& point : search.front)
    table.add({format_cost(point.cost_per_epoch, search.currency), format_seconds(point.epoch_seconds) + (point.close_to_cheaper ? " *" : ""),
               format_rate(point.samples_per_s, point.ci95_samples_per_s), binding_word(point)});
  std::istringstream lines(table.text(width));
  std::string line;
  std::getline(lines, line);
  std::string text = line + "\n";
  for (const SearchPoint& point : search.front) {
    std::getline(lines, line);
    const std::string simulated = point.simulated ? fmt::format("; simulated {} samples/s", format_number(point.simulated->samples_per_s)) : "";
    text += line + "\n" + paragraph("      ", setup_text(point.setup) + simulated, width);
  }
  if (std::ranges::any_of(search.front, &SearchPoint::close_to_cheaper))
    text += paragraph("  ", "* not surely faster than the cheaper one above: their intervals overlap", width);
  if (std::ranges::any_of(search.front, [](const SearchPoint& point) { return point.extrapolation > most_extrapolation; }))
    text += paragraph("  ~ ", report::far_extrapolated_text(), width);
  return text;
}

}  // namespace

std::string search_section(const SearchResult& search, const ConsoleStyle& style) {
  const std::size_t width = layout_width(style);
  std::string text = "\n" + paint("search", Ink::bold, style.colour) + "\n";
  text +=
      paragraph("  ",
                fmt::format("{}; {} set-ups by the closed form{}", report::price_list_text(search), format_number(static_cast<double>(search.setups)),
                            search.simulated > 0 ? fmt::format(", {} simulated", search.simulated) : ""),
                width);
  for (const std::string& sentence : search.conclusions) text += paragraph("  - ", sentence, width);
  text += "\n" + paragraph("  ", "what more speed costs; nothing else is both cheaper an epoch and faster", width) + front_lines(search, width);
  return text;
}

}  // namespace dsanalyze::console
