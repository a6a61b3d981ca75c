#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "console_table.hpp"
#include "dsanalyze/core/rate_text.hpp"
#include "dsanalyze/report/report.hpp"

namespace dsanalyze {
namespace {

using console::Ink;
using console::paint;
using console::paragraph;
using console::Table;

std::string change_text(const WhatIfChange& change) {
  std::vector<std::string> parts;
  if (change.cache_fraction) {
    parts.push_back("cache " + format_share(*change.cache_fraction));
    if (change.cache_bytes) parts.back() += " (" + format_bytes(*change.cache_bytes) + ")";
  }
  if (change.cores) parts.push_back(format_number(*change.cores) + " cores");
  if (change.cores_factor) parts.push_back(fmt::format("{}x cores", format_number(*change.cores_factor)));
  if (change.accelerator_speed) parts.push_back(fmt::format("{}x accelerator speed", format_number(*change.accelerator_speed)));
  if (change.accelerators) parts.push_back(format_number(*change.accelerators) + " accelerators");
  if (change.storage_bytes_per_s) parts.push_back("storage " + format_bytes_per_second(*change.storage_bytes_per_s));
  if (change.storage_factor)
    parts.push_back(*change.storage_factor >= 1e9 ? "storage without limit" : fmt::format("{}x storage", format_number(*change.storage_factor)));
  return parts.empty() ? "as measured" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string binding_text(const WhatIfAnswer& answer) {
  const std::string words = answer.bottleneck == "gpu" ? "accelerators [G]" : answer.bottleneck == "cpu" ? "prep [P]" : "fetch [F]";
  return answer.too_close ? words + " ?" : words;
}

std::string answers_table(const WhatIfResult& result, std::size_t width) {
  const auto& answers = result.answers;
  const bool epochs = std::ranges::any_of(answers, [](const WhatIfAnswer& answer) { return answer.epoch_seconds > 0; });
  std::vector<Table::Column> columns{{"change", Table::Align::left}, {"samples/s", Table::Align::left}};
  if (epochs) columns.push_back({"epoch", Table::Align::right});
  columns.push_back({"binds", Table::Align::left});
  columns.push_back({"speed-up", Table::Align::right});
  Table table(columns, 0);
  for (const WhatIfAnswer& answer : answers) {
    std::vector<std::string> cells{change_text(answer.change), format_rate(answer.samples_per_s, answer.ci95_samples_per_s)};
    if (epochs) cells.push_back(format_seconds(answer.epoch_seconds));
    cells.push_back(binding_text(answer));
    cells.push_back(fmt::format("{:.2f}x", answer.speedup));
    table.add(std::move(cells));
  }
  std::string text = table.text(width);
  if (std::ranges::any_of(answers, &WhatIfAnswer::too_close)) text += "  ? too close to call: the two lowest rates' intervals overlap\n";
  return text;
}

std::string question_text(const std::string& question) {
  if (question == "cache") return "smallest cache without a fetch stall";
  if (question == "cores") return "fewest cores without a prep stall";
  if (question == "accelerators") return "most accelerators that the data can feed";
  return "slowest storage without a fetch stall";
}

/// Rounded up where less would not do, so that what is read is enough.
std::string value_text(double value, const std::string& unit) {
  if (unit == "of the dataset") return format_share(std::ceil(value * 1000 * (1 - 1e-12)) / 1000) + " " + unit;
  if (unit == "bytes/s") return format_bytes_per_second(value);
  return format_number(value) + " " + unit;
}

std::string found_section(const std::vector<WhatIfFound>& found, const ConsoleStyle& style) {
  std::string text;
  for (const WhatIfFound& one : found) {
    const std::string heading = question_text(one.question) + ": " + (one.value ? value_text(*one.value, one.unit) : "none");
    text += "\n";
    for (const std::string& line : console::wrap(heading, console::layout_width(style))) text += paint(line, Ink::bold, style.colour) + "\n";
    text += paragraph("  ", one.then + ".", console::layout_width(style));
  }
  return text;
}

std::string advice_section(const std::vector<AdviceRecord>& advice, std::size_t width) {
  if (advice.empty()) return "";
  std::string text = "\nadvice\n";
  for (const AdviceRecord& one : advice) text += paragraph("  - ", one.text, width);
  // All advice of one answer rests on the same rates.
  text += paragraph("    ", fmt::format("({})", fmt::join(advice.front().evidence, "; ")), width);
  return text;
}

}  // namespace

std::string console_summary(const WhatIfResult& result, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  std::string text = paragraph("", result.model, width);
  text += paragraph("", fmt::format("from {}; {} of the dataset cached", result.source, format_share(result.base_cache_fraction)), width);
  text += "\n" + answers_table(result, width);
  text += found_section(result.found, style);
  text += advice_section(result.advice, width);
  return text + console::findings_section(result.findings, style);
}

}  // namespace dsanalyze
