#include "shared_sections.hpp"

#include <fmt/format.h>

#include <array>

namespace dsanalyze::report {

std::string begun(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

void add_advice(const std::vector<AdviceRecord>& advice, Section& section) {
  if (advice.empty()) return;
  List list;
  for (const AdviceRecord& one : advice) list.items.push_back(one.text);
  section.blocks.emplace_back(std::move(list));
  // All advice of one result rests on the same rates.
  if (!advice.front().evidence.empty())
    section.blocks.emplace_back(Paragraph{fmt::format("This rests on: {}.", fmt::join(advice.front().evidence, "; ")), Paragraph::Tone::muted});
  Table steps{"the steps in a loader of your own", {{"what", Align::left}, {"loader", Align::left}, {"step", Align::left}}};
  for (const AdviceRecord& one : advice)
    for (const LoaderStep& step : one.steps) steps.add({one.code, step.loader, step.text});
  if (!steps.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(steps)});
}

std::string severity_word(Finding::Severity severity) {
  constexpr std::array words{"note", "warning", "error"};
  return words.at(static_cast<std::size_t>(severity));
}

Section findings_of(const std::vector<Finding>& findings) {
  Section section{"findings", "Findings"};
  Table table{"what to bear in mind, the most severe first", {{"severity", Align::left}, {"finding", Align::left}, {"code", Align::left}}};
  for (const auto severity : {Finding::Severity::error, Finding::Severity::warning, Finding::Severity::info})
    for (const Finding& finding : findings)
      if (finding.severity == severity) table.add({severity_word(severity), finding.message, finding.code});
  if (!table.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

}  // namespace dsanalyze::report
