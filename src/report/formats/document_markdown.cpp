#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "report/document/document.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t longest_markdown_text = 1000;

std::string shown_markdown(const std::string& text) { return markdown_text(shortened(text, longest_markdown_text)); }

std::string table_markdown(const Table& table) {
  std::string text = "|";
  for (const Column& column : table.columns) text += " " + shown_markdown(column.heading) + " |";
  text += "\n|";
  for (std::size_t at = 0; at < table.columns.size(); ++at)
    text += table.columns[at].align == Align::right && !(at == 0 && table.row_headings) ? " ---: |" : " --- |";
  text += "\n";
  const std::size_t count = std::min(table.rows.size(), most_rows);
  for (std::size_t row = 0; row < count; ++row) {
    text += "|";
    for (const Cell& cell : table.rows[row])
      text += cell.look == Cell::Look::differs ? " **" + shown_markdown(cell.text) + "** |" : " " + shown_markdown(cell.text) + " |";
    text += "\n";
  }
  if (count < table.rows.size()) text += fmt::format("\nThe first {} of {} rows.\n", count, format_number(static_cast<double>(table.rows.size())));
  return text;
}

class MarkdownWriter {
 public:
  void operator()(const Paragraph& paragraph) {
    text += paragraph.tone == Paragraph::Tone::warning ? "> " + shown_markdown(paragraph.text) + "\n\n" : shown_markdown(paragraph.text) + "\n\n";
  }
  void operator()(const List& list) {
    for (const std::string& item : list.items) text += "- " + shown_markdown(item) + "\n";
    text += "\n";
  }
  void operator()(const Terms& terms) {
    for (const Terms::Term& term : terms.terms) text += fmt::format("- **{}:** {}\n", shown_markdown(term.term), shown_markdown(term.text));
    text += "\n";
  }
  void operator()(const EpochSplit& split) {
    std::vector<std::string> parts;
    for (const EpochSplit::Part& part : split.parts)
      parts.push_back(fmt::format("{} **{}**{}", shown_markdown(part.name), shown_markdown(part.share),
                                  part.time.empty() ? "" : " (" + shown_markdown(part.time) + ")"));
    text += fmt::format("{}: {}\n\n", split.label.empty() ? "Of an epoch" : shown_markdown(split.label), fmt::join(parts, ", "));
  }
  void operator()(const Figure& figure) {
    if (!figure.title.empty()) text += "### " + shown_markdown(figure.title) + "\n\n";
    if (!figure.text.empty()) text += shown_markdown(figure.text) + "\n\n";
    const std::string table = table_markdown(figure.table);
    if (figure.folding == Folding::open)
      text += shown_markdown(figure.table.caption) + ":\n\n" + table + "\n";
    else
      text += fmt::format("<details><summary>{}</summary>\n\n{}\n</details>\n\n", html_text(shortened(figure.table.caption, longest_markdown_text)),
                          table);
  }
  void operator()(const LivePlace&) {}

  std::string text;
};

bool only_live(const Section& section) {
  return std::ranges::any_of(section.blocks, [](const Block& block) { return std::holds_alternative<LivePlace>(block); });
}

}  // namespace

std::string markdown(const Document& document) {
  MarkdownWriter writer;
  for (const Section& section : document.sections) {
    if (only_live(section)) continue;
    writer.text += fmt::format("{} {}\n\n", &section == &document.sections.front() ? "#" : "##", shown_markdown(section.title));
    if (&section == &document.sections.front() && !document.subtitle.empty()) writer.text += shown_markdown(document.subtitle) + "\n\n";
    for (const Block& block : section.blocks) std::visit(writer, block);
  }
  writer.text.erase(writer.text.find_last_not_of('\n') + 1);
  return writer.text + "\n";
}

}  // namespace dsanalyze::report
