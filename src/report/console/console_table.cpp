#include "console_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/text.hpp"

namespace dsanalyze::console {
namespace {

constexpr std::size_t indent = 2;
constexpr std::size_t gap = 2;
constexpr std::size_t narrowest_flexible = 10;

std::string padded(const std::string& text, std::size_t width, Table::Align align) {
  const std::size_t used = display_width(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return align == Table::Align::left ? text + blanks : blanks + text;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string_view severity_word(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::error:
      return "error";
    case Finding::Severity::warning:
      return "warning";
    case Finding::Severity::info:
      break;
  }
  return "note";
}

Ink severity_ink(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::error:
      return Ink::red;
    case Finding::Severity::warning:
      return Ink::yellow;
    case Finding::Severity::info:
      break;
  }
  return Ink::plain;
}

}  // namespace

std::size_t layout_width(const ConsoleStyle& style) { return static_cast<std::size_t>(std::clamp(style.width, 40, 120)); }

std::string paint(std::string_view text, Ink ink, Colour colour) {
  if (colour == Colour::off || ink == Ink::plain) return std::string(text);
  static constexpr std::array<std::string_view, 5> codes{"0", "1", "31", "33", "32"};
  return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(ink)], text);
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  m_rows.push_back(std::move(cells));
}

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (const Column& column : m_columns) widths.push_back(display_width(column.heading));
  for (const auto& row : m_rows)
    for (std::size_t at = 0; at < row.size(); ++at) widths[at] = std::max(widths[at], display_width(row[at]));

  std::size_t others = indent;
  for (std::size_t at = 0; at < widths.size(); ++at)
    if (at != m_flexible) others += widths[at] + gap;
  const std::size_t room = width > others ? width - others : 0;
  if (room < std::min(widths[m_flexible], narrowest_flexible)) return stacked(width);
  widths[m_flexible] = std::min(widths[m_flexible], std::max(room, narrowest_flexible));

  const auto line = [&](const std::vector<std::string>& cells) {
    std::string result(indent, ' ');
    for (std::size_t at = 0; at < cells.size(); ++at) {
      if (at > 0) result.append(gap, ' ');
      result += padded(cells[at], widths[at], m_columns[at].align);
    }
    return without_trailing_blanks(result) + "\n";
  };

  std::vector<std::string> headings;
  for (const Column& column : m_columns) headings.push_back(column.heading);
  const bool has_headings = std::ranges::any_of(headings, [](const std::string& heading) { return !heading.empty(); });
  std::string result = has_headings ? line(headings) : "";
  for (auto row : m_rows) {
    const auto parts = wrap(row[m_flexible], widths[m_flexible]);
    row[m_flexible] = parts.front();
    result += line(row);
    for (std::size_t part = 1; part < parts.size(); ++part) {
      std::vector<std::string> rest(row.size());
      rest[m_flexible] = parts[part];
      result += line(rest);
    }
  }
  return result;
}

std::string Table::stacked(std::size_t width) const {
  std::string result;
  if (!m_columns.front().heading.empty()) result += paragraph(std::string(indent, ' '), m_columns.front().heading, width);
  for (const auto& row : m_rows) {
    result += paragraph(std::string(indent, ' '), row.front(), width);
    for (std::size_t at = 1; at < row.size(); ++at) {
      if (row[at].empty()) continue;
      const std::string lead = m_columns[at].heading.empty() ? "" : m_columns[at].heading + ": ";
      result += paragraph(std::string(2 * indent, ' '), lead + row[at], width);
    }
  }
  return result;
}

std::string findings_section(const std::vector<Finding>& findings, const ConsoleStyle& style) {
  if (findings.empty()) return "";
  std::string result = "\nfindings\n";
  for (const auto severity : {Finding::Severity::error, Finding::Severity::warning, Finding::Severity::info})
    for (const Finding& finding : findings) {
      if (finding.severity != severity) continue;
      const std::string word = fmt::format("{}: ", severity_word(severity));
      std::string text = paragraph("  " + word, fmt::format("{} [{}]", finding.message, finding.code), layout_width(style));
      text.replace(2, word.size(), paint(word, severity_ink(severity), style.colour));
      result += text;
    }
  return result;
}

}  // namespace dsanalyze::console
