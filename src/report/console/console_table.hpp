#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "base/text/text.hpp"
#include "report/report.hpp"

namespace dsanalyze::console {

/// The width to lay out for: at least 40 columns, at most 120, however the terminal is.
std::size_t layout_width(const ConsoleStyle& style);

enum class Ink { plain, bold, red, yellow, green };
/// The text in the ink; unchanged where colour is off.
std::string paint(std::string_view text, Ink ink, Colour colour);

/// Aligned columns, two spaces apart, indented by two. The flexible column is wrapped when the whole would be wider than `width`; where even that
/// does not suffice, each row becomes lines of its own, a cell a line behind its heading.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string heading;
    Align align = Align::right;
  };
  Table(std::vector<Column> columns, std::size_t flexible) : m_columns(std::move(columns)), m_flexible(flexible) {}
  void add(std::vector<std::string> cells);
  [[nodiscard]] std::string text(std::size_t width) const;

 private:
  [[nodiscard]] std::string stacked(std::size_t width) const;

  std::vector<Column> m_columns;
  std::size_t m_flexible;
  std::vector<std::vector<std::string>> m_rows;
};

/// "findings" with one paragraph each, the most severe first; empty for none.
std::string findings_section(const std::vector<Finding>& findings, const ConsoleStyle& style);

}  // namespace dsanalyze::console
