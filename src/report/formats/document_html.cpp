#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "report/document/document.hpp"

namespace dsanalyze::report {
namespace {

/// Quoted; a percent sign stays with its number.
std::string shown_html(const std::string& text) {
  std::string html = html_text(shortened(text, longest_html_text));
  for (std::size_t at = html.find(" %"); at != std::string::npos; at = html.find(" %", at)) html.replace(at, 1, "\u00a0");
  return html;
}

/// Cells of so many characters are wrapped, and are given room for it.
constexpr std::size_t long_cell = 40;

std::string cell_class(const Cell& cell, Align align) {
  std::string classes;
  if (align == Align::right) classes = "number";
  if (cell.look == Cell::Look::differs) classes += classes.empty() ? "differs" : " differs";
  if (cell.look == Cell::Look::heat) classes += fmt::format("{}heat heat-{}", classes.empty() ? "" : " ", std::clamp(cell.heat, 0, 9));
  if (cell.text.size() > long_cell) classes += classes.empty() ? "long" : " long";
  return classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
}

std::string row_html(const Table& table, const std::vector<Cell>& row) {
  std::string html = "<tr>";
  for (std::size_t at = 0; at < row.size() && at < table.columns.size(); ++at) {
    const bool heading = at == 0 && table.row_headings;
    const std::string classes = cell_class(row[at], heading ? Align::left : table.columns[at].align);
    html += heading ? fmt::format("<th scope=\"row\"{}>", classes) : fmt::format("<td{}>", classes);
    html += shown_html(row[at].text) + (heading ? "</th>" : "</td>");
  }
  return html + "</tr>\n";
}

/// What a table and a list may take. Their first row or item is always there.
constexpr std::size_t most_table_bytes = 200'000;
constexpr std::size_t most_list_bytes = 40'000;

std::string list_html(const List& list, std::size_t room) {
  std::string items;
  std::size_t count = 0;
  for (; count < list.items.size(); ++count) {
    const std::string item = "<li>" + shown_html(list.items[count]) + "</li>\n";
    if (count > 0 && items.size() + item.size() > room) break;
    items += item;
  }
  if (count < list.items.size())
    items += fmt::format("<li>and {} more; the JSON record has them all</li>\n", format_number(static_cast<double>(list.items.size() - count)));
  return "<ul>\n" + items + "</ul>\n";
}

std::string table_html(const Table& table, const std::string& id, std::size_t room) {
  std::string rows;
  std::size_t count = 0;
  for (; count < std::min(table.rows.size(), most_rows); ++count) {
    const std::string row = row_html(table, table.rows[count]);
    if (count > 0 && rows.size() + row.size() > room) break;
    rows += row;
  }
  std::string caption = table.caption;
  if (count < table.rows.size())
    caption += fmt::format(" (the first {} of {} rows; the JSON record has them all)", count, format_number(static_cast<double>(table.rows.size())));
  std::string html =
      fmt::format("<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{}\">\n<table id=\"{}\">\n<caption>{}</caption>\n<thead><tr>",
                  shown_html(table.caption), html_text(id), shown_html(caption));
  for (std::size_t at = 0; at < table.columns.size(); ++at) {
    if (table.columns[at].heading.empty()) {
      html += "<td></td>";  // a corner is no heading
      continue;
    }
    const bool right = table.columns[at].align == Align::right && !(at == 0 && table.row_headings);
    html += fmt::format("<th scope=\"col\"{}>{}</th>", right ? " class=\"number\"" : "", shown_html(table.columns[at].heading));
  }
  return html + "</tr></thead>\n<tbody>\n" + rows + "</tbody>\n</table>\n</div>\n";
}

std::string charts_html(const std::vector<Chart>& charts, const std::string& table_id) {
  if (charts.empty()) return "";
  std::string html = fmt::format("<div class=\"plots{}\" hidden>\n", charts.size() > 1 ? " many" : "");
  for (const Chart& chart : charts) {
    // Rows need room each, and so do the names of many lines.
    const std::size_t rows = chart.kind == Chart::Kind::points ? chart.categories.size() : std::max<std::size_t>(7, chart.series.size());
    const char* height = rows == 7 ? "" : rows < 7 ? " low" : " tall";
    html += fmt::format(
        "<div class=\"plot{}\"><canvas data-chart=\"{}\" role=\"img\" aria-label=\"{}. The table below holds its numbers.\" "
        "aria-describedby=\"{}\"></canvas></div>\n",
        height, html_text(chart.name), shown_html("Chart: " + chart.title), html_text(table_id));
  }
  return html + "</div>\n";
}

class HtmlWriter {
 public:
  /// `room`: what the page's tables and lists may still take.
  HtmlWriter(const Section& section, std::size_t& room) : m_section(section), m_room(room) {}

  void operator()(const Paragraph& paragraph) {
    constexpr std::array classes{"", " class=\"muted\"", " class=\"warning\""};
    m_html += fmt::format("<p{}>{}</p>\n", classes.at(static_cast<std::size_t>(paragraph.tone)), shown_html(paragraph.text));
  }
  void operator()(const List& list) {
    const std::string html = list_html(list, std::min(m_room, most_list_bytes));
    m_room -= std::min(m_room, html.size());
    m_html += html;
  }
  void operator()(const Terms& terms) {
    m_html += "<dl>\n";
    for (const Terms::Term& term : terms.terms)
      m_html += fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n", term.weight == Terms::Term::Weight::first ? " class=\"first\"" : "",
                            shown_html(term.term), shown_html(term.text));
    m_html += "</dl>\n";
  }
  void operator()(const EpochSplit& split) {
    m_html += "<div class=\"epoch\">\n";
    if (!split.label.empty()) m_html += "<p class=\"label\">" + shown_html(split.label) + "</p>\n";
    m_html += "<div class=\"bar\" aria-hidden=\"true\">";
    for (const EpochSplit::Part& part : split.parts) {
      const double width = std::isfinite(part.fraction) ? std::clamp(part.fraction, 0.0, 1.0) * 100 : 0;
      m_html += fmt::format("<span class=\"{}\" style=\"width:{:.2f}%\"></span>", html_text(part.kind), width);
    }
    m_html += "</div>\n<ul class=\"legend\">\n";
    for (const EpochSplit::Part& part : split.parts)
      m_html += fmt::format("<li><span class=\"key {}\" aria-hidden=\"true\"></span>{} <strong>{}</strong>{}</li>\n", html_text(part.kind),
                            shown_html(part.name), shown_html(part.share),
                            part.time.empty() ? "" : " <span class=\"muted\">" + shown_html(part.time) + "</span>");
    m_html += "</ul>\n</div>\n";
  }
  void operator()(const Figure& figure) {
    const std::string table_id = fmt::format("table-{}-{}", m_section.id, ++m_figures);
    m_html += "<div class=\"figure\">\n";
    if (!figure.title.empty()) m_html += "<h3>" + shown_html(figure.title) + "</h3>\n";
    if (!figure.text.empty()) m_html += "<p class=\"muted\">" + shown_html(figure.text) + "</p>\n";
    m_html += charts_html(figure.charts, table_id);
    const std::string table = table_html(figure.table, table_id, std::min(m_room, most_table_bytes));
    m_room -= std::min(m_room, table.size());
    m_html += figure.folding == Folding::open
                  ? table
                  : fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", shown_html("The numbers: " + figure.table.caption), table);
    m_html += "</div>\n";
  }
  void operator()(const LivePlace& place) {
    m_html += fmt::format(
        "{}<div class=\"live\" data-live=\"{}\"><p class=\"muted\">The sliders need a browser that runs scripts. The tables of this page, and "
        "`dsanalyze "
        "whatif`, answer the same questions without.</p></div>\n",
        place.label.empty() ? "" : "<h3>" + shown_html(place.label) + "</h3>\n", place.result);
  }

  [[nodiscard]] const std::string& html() const { return m_html; }

 private:
  const Section& m_section;
  std::size_t& m_room;
  std::string m_html;
  std::size_t m_figures = 0;
};

}  // namespace

std::string html_navigation(const Document& document) {
  std::string html;
  for (const Section& section : document.sections)
    if (&section != &document.sections.front())
      html += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", html_text(section.id), shown_html(section.title));
  return html;
}

std::string html_sections(const Document& document, std::size_t room) {
  std::string html;
  for (const Section& section : document.sections) {
    const char level = &section == &document.sections.front() ? '1' : '2';
    html += fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h{1} id=\"{0}-title\">{2}</h{1}>\n", html_text(section.id), level,
                        shown_html(section.title));
    HtmlWriter writer(section, room);
    for (const Block& block : section.blocks) std::visit(writer, block);
    html += writer.html() + "</section>\n";
  }
  return html;
}

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
