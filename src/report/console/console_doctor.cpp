#include <fmt/format.h>

#include "base/text/text.hpp"
#include "console_table.hpp"
#include "report/document/record_texts.hpp"
#include "report/report.hpp"

namespace dsanalyze {
namespace {

using console::Ink;
using console::paint;

constexpr std::size_t lead_columns = 11;

Ink ink_of(DoctorStatus status) {
  switch (status) {
    case DoctorStatus::problem:
      return Ink::red;
    case DoctorStatus::warning:
      return Ink::yellow;
    case DoctorStatus::ok:
      return Ink::green;
    case DoctorStatus::note:
    case DoctorStatus::unknown:
      break;
  }
  return Ink::plain;
}

std::string lead(std::string_view word) { return fmt::format("  {:<{}}", word, lead_columns - 2); }

/// The first line's word in ink; the text is laid out before, as ink takes no columns.
std::string with_ink(std::string text, std::string_view word, Ink ink, Colour colour) {
  const std::size_t at = text.find(word);
  if (at != std::string::npos) text.replace(at, word.size(), paint(word, ink, colour));
  return text;
}

/// Command lines are not broken, however wide: they are there to be copied.
std::string commands_of(const DoctorCheck& check) {
  std::string text;
  for (const DoctorCommand& each : check.commands)
    text += fmt::format("{}{:<10}{}\n", std::string(lead_columns, ' '), report::place_of(each.where), printable(each.command));
  return text;
}

std::string in_full(const DoctorCheck& check, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  const std::string_view word = doctor_status_name(check.status);
  std::string text = with_ink(paragraph(lead(word), fmt::format("{}: {} [{}]", check.title, printable(check.found), check.code), width), word,
                              ink_of(check.status), style.colour);
  const std::string indent(lead_columns, ' ');
  text += paragraph(indent, check.why, width);
  if (!check.fix.empty()) text += paragraph(indent, printable(check.fix), width);
  return text + commands_of(check);
}

std::string in_short(const DoctorCheck& check, const ConsoleStyle& style) {
  const std::string fix = check.status == DoctorStatus::note && !check.fix.empty() ? ". " + printable(check.fix) : "";
  std::string text = paragraph(lead(doctor_status_name(check.status)), fmt::format("{}: {}{}", check.title, printable(check.found), fix),
                               console::layout_width(style));
  return check.status == DoctorStatus::note ? text + commands_of(check) : text;
}

std::string fine_ones(const DoctorResult& result, const ConsoleStyle& style) {
  std::string titles;
  for (const DoctorCheck& check : result.checks)
    if (check.status == DoctorStatus::ok) titles += (titles.empty() ? "" : ", ") + check.title;
  if (titles.empty()) return "";
  return with_ink(paragraph(lead("fine"), titles, console::layout_width(style)), "fine", Ink::green, style.colour);
}

}  // namespace

std::string console_summary(const DoctorResult& result, const ConsoleStyle& style, DoctorDetail detail) {
  const std::size_t width = console::layout_width(style);
  std::string text = paint(report::doctor_counts(result), Ink::bold, style.colour) + "\n\n";
  for (const DoctorStatus status : report::doctor_by_weight) {
    std::string section;
    for (const DoctorCheck& check : result.checks) {
      if (check.status != status) continue;
      const bool serious = status == DoctorStatus::problem || status == DoctorStatus::warning;
      if (serious || detail == DoctorDetail::all)
        section += (section.empty() ? "" : "\n") + in_full(check, style);
      else if (status != DoctorStatus::ok)
        section += in_short(check, style);
    }
    if (status == DoctorStatus::ok && detail == DoctorDetail::usual) section = fine_ones(result, style);
    if (!section.empty()) text += section + "\n";
  }
  text += paragraph(lead("machine"), report::machine_line(result), width);
  text += paragraph(lead("dataset"),
                    result.dataset.empty() ? "none given: nothing was asked of a disk (dsanalyze doctor DATASET)" : printable(result.dataset), width);
  return text;
}

}  // namespace dsanalyze
