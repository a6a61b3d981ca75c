#include <fmt/format.h>

#include <algorithm>

#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

std::string headline(const DoctorResult& result) {
  const std::size_t problems = result.count(DoctorStatus::problem), warnings = result.count(DoctorStatus::warning);
  if (problems > 0)
    return fmt::format("{} would spoil a measurement on this machine", problems == 1 ? "One thing" : fmt::format("{} things", problems));
  if (warnings > 0)
    return fmt::format("Nothing stands in the way of a measurement on this machine, but {} may change what it says",
                       warnings == 1 ? "one thing" : fmt::format("{} things", warnings));
  return "Nothing was found that stands in the way of a measurement on this machine";
}

/// A sentence ends with a point, whatever it was found as.
std::string ended(const std::string& text) { return text.empty() || text.ends_with('.') || text.ends_with(':') ? text : text + "."; }

/// Why it matters and what to do; commands have a table of their own.
std::string check_text(const DoctorCheck& check) {
  std::string text = ended(begun(check.found)) + " " + check.why;
  if (!check.fix.empty() && check.commands.empty()) text += " " + check.fix;
  return text;
}

Section checks_section(const DoctorResult& result, DoctorStatus status, const std::string& id, const std::string& title) {
  Section section{id, title};
  Terms terms;
  Table commands{"what fixes it (of several commands of one place any one will do)",
                 {{"check", Align::left}, {"what to do", Align::left}, {"where", Align::left}, {"command", Align::left}}};
  for (const DoctorCheck& check : result.checks) {
    if (check.status != status) continue;
    terms.terms.push_back({fmt::format("{} ({})", begun(check.title), check.group), check_text(check),
                           status == DoctorStatus::problem ? Terms::Term::Weight::first : Terms::Term::Weight::plain});
    for (const DoctorCommand& each : check.commands)
      commands.add({check.title, check.fix.substr(0, check.fix.find_last_not_of(':') + 1), std::string(place_of(each.where)), each.command});
  }
  if (!terms.terms.empty()) section.blocks.emplace_back(std::move(terms));
  if (!commands.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(commands)});
  return section;
}

Section all_section(const DoctorResult& result) {
  Section section{"checks", "Every check"};
  Table table{"by group, the gravest first",
              {{"check", Align::left}, {"group", Align::left}, {"status", Align::left}, {"found", Align::left}, {"code", Align::left}}};
  std::vector<std::string> groups;
  for (const DoctorCheck& check : result.checks)
    if (std::ranges::find(groups, check.group) == groups.end()) groups.push_back(check.group);
  for (const std::string& group : groups)
    for (const DoctorStatus status : doctor_by_weight)
      for (const DoctorCheck& check : result.checks)
        if (check.group == group && check.status == status)
          table.add({check.title, group, std::string(doctor_status_name(status)), check.found, check.code});
  if (!table.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

}  // namespace

Document doctor_document(const DoctorResult& result) {
  Document document;
  document.subtitle = result.dataset.empty() ? "doctor: this machine" : "doctor: " + result.dataset;
  Section& verdict = document.sections.emplace_back(Section{"verdict", headline(result)});
  verdict.blocks.emplace_back(Paragraph{doctor_counts(result) + "."});
  verdict.blocks.emplace_back(
      Terms{{{"Machine", machine_line(result)}, {"Dataset", result.dataset.empty() ? "None given: nothing was asked of a disk." : result.dataset}}});
  document.sections.push_back(checks_section(result, DoctorStatus::problem, "problems", "Problems"));
  document.sections.push_back(checks_section(result, DoctorStatus::warning, "warnings", "Warnings"));
  document.sections.push_back(checks_section(result, DoctorStatus::note, "notes", "Notes"));
  document.sections.push_back(checks_section(result, DoctorStatus::unknown, "unknown", "What could not be looked at"));
  document.sections.push_back(all_section(result));
  std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
  return document;
}

}  // namespace dsanalyze::report
