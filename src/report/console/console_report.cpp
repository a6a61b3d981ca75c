#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.hpp"
#include "console_table.hpp"
#include "console_verdict.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/profile_text.hpp"
#include "report/document/record_documents.hpp"

namespace dsanalyze {
namespace {

using console::Table;
using report::NamedRate;
using report::ProfileView;
using report::ProfileViews;

std::string rates_table(ProfileViews views, std::size_t width) {
  Table table({{"rates, samples/s", Table::Align::left},
               {"", Table::Align::left},
               {"result", Table::Align::left},
               {"", Table::Align::left},
               {"to the first", Table::Align::right}},
              2);
  for (const NamedRate& named : report::named_rates()) {
    const auto& first = views.front().profile->*named.rate;
    bool begins = true;
    for (const ProfileView& view : views) {
      const auto& rate = view.profile->*named.rate;
      if (!rate) continue;
      table.add({begins ? named.words : "", begins ? fmt::format("[{}]", named.letter) : "", view.label,
                 format_rate(rate->samples_per_s, rate->ci95_samples_per_s),
                 first && first->samples_per_s > 0 ? fmt::format("{:.3f}x", rate->samples_per_s / first->samples_per_s) : "-"});
      begins = false;
    }
  }
  return table.text(width);
}

std::string stalls_table(ProfileViews views, std::size_t width) {
  Table table({{"of an epoch", Table::Align::left},
               {"compute", Table::Align::right},
               {"prep stall", Table::Align::right},
               {"fetch stall", Table::Align::right},
               {"interference", Table::Align::right}},
              0);
  bool any = false;
  for (const ProfileView& view : views) {
    const auto& stalls = view.profile->stalls;
    if (!stalls) continue;
    any = true;
    table.add({view.label, report::share_with_interval(stalls->compute), report::share_with_interval(stalls->prep),
               report::share_with_interval(stalls->fetch), stalls->interference ? report::share_with_interval(*stalls->interference) : "-"});
  }
  return any ? "\n" + table.text(width) : "";
}

/// A document's table for a terminal.
std::string sweep_text(const std::optional<report::SweepMap>& map, std::size_t width) {
  if (!map) return "";
  std::vector<Table::Column> columns;
  for (const report::Column& column : map->table.columns)
    columns.push_back({column.heading, columns.empty() ? Table::Align::left : Table::Align::right});
  Table table(std::move(columns), 0);
  for (const auto& row : map->table.rows) {
    std::vector<std::string> cells;
    cells.reserve(row.size());
    for (const report::Cell& cell : row) cells.push_back(cell.text);
    table.add(std::move(cells));
  }
  std::string text = "\n" + paragraph("", map->table.caption, width) + table.text(width);
  if (!map->held.empty()) text += paragraph("  ", "held where the best answer has it: " + map->held, width);
  return text;
}

/// A result alone.
struct Summary {
  const ConsoleStyle& style;
  std::string operator()(const DoctorResult& result) const { return console_summary(result, style, DoctorDetail::usual); }
  std::string operator()(const WhatIfResult& result) const {
    return console_summary(result, style) + sweep_text(report::whatif_sweep(result), console::layout_width(style));
  }
  template <typename Result>
  std::string operator()(const Result& result) const {
    return console_summary(result, style);
  }
};

std::string compared(ProfileViews views, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  std::string text;
  for (const ProfileView& view : views)
    text += console::paint(printable(view.label), console::Ink::bold, style.colour) + "\n" +
            paragraph("  ", console::verdict_parts(*view.profile).sentence, width);
  text += sweep_text(report::profile_sweep(views), width);
  text += "\n" + rates_table(views, width) + stalls_table(views, width);
  std::string differing;
  const report::Section settings = report::settings_section(views);
  for (const report::Block& block : settings.blocks)
    if (const auto* figure = std::get_if<report::Figure>(&block))
      for (const auto& row : figure->table.rows) {
        if (row.size() < 2 || row[1].look != report::Cell::Look::differs) continue;
        std::vector<std::string> values;
        for (std::size_t at = 1; at < row.size(); ++at) values.push_back(row[at].text);
        differing += paragraph("  " + row.front().text + ": ", fmt::format("{}", fmt::join(values, " | ")), width);
      }
  return text + "\nsettings that differ\n" + (differing.empty() ? "  none\n" : differing);
}

}  // namespace

std::string console_report(std::span<const ReportInput> inputs, const ConsoleStyle& style) {
  std::string text;
  const std::vector<ProfileView> profiles = report::profile_views(inputs);
  if (profiles.size() > 1) text = compared(profiles, style);
  for (const ReportInput& input : inputs) {
    if (profiles.size() > 1 && std::holds_alternative<ProfileResult>(input.record)) continue;
    if (!text.empty()) text += "\n";
    if (inputs.size() > 1) text += console::paint(printable(input.label), console::Ink::bold, style.colour) + "\n\n";
    text += std::visit(Summary{style}, input.record);
  }
  return text;
}

}  // namespace dsanalyze
