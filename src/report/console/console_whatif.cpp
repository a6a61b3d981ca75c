#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include "console_table.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/record_texts.hpp"
#include "report/report.hpp"

namespace dsanalyze::console {
namespace {

std::string binding_word(const SearchPoint& point) {
  const std::string word = point.bottleneck == "gpu" ? "[G]" : point.bottleneck == "cpu" ? "[P]" : "[F]";
  return word + (point.too_close ? " ?" : "") + (point.extrapolation > most_extrapolation ? " ~" : "");
}

/// A line of figures for each point, its parts below.
std::string front_lines(const SearchResult& search, std::size_t width) {
  Table table(
      {{"an epoch", Table::Align::right}, {"takes", Table::Align::right}, {"samples/s", Table::Align::left}, {"bottleneck", Table::Align::left}}, 2);
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

/// What a search found: its conclusions, then the front of cost and time as a table. Findings are the caller's.
std::string search_section(const SearchResult& search, const ConsoleStyle& style) {
  const std::size_t width = layout_width(style);
  std::string text = "\n" + paint("search", Ink::bold, style.colour) + "\n";
  text += paragraph(
      "  ",
      fmt::format("{}; {} configurations by the closed form{}", report::price_list_text(search), format_number(static_cast<double>(search.setups)),
                  search.simulated > 0 ? fmt::format(", {} simulated", search.simulated) : ""),
      width);
  for (const std::string& sentence : search.conclusions) text += paragraph("  - ", sentence, width);
  text += "\n" + paragraph("  ", "what more speed costs; nothing else is both cheaper an epoch and faster", width) + front_lines(search, width);
  return text;
}

using Align = Table::Align;

std::string ways_table(const WhatIfJobMix& mix, std::size_t width) {
  Table table({{"jobs share", Align::left}, {"completion"}, {"makespan"}, {"preps"}, {"fastest"}, {"method", Align::left}}, 0);
  for (const WhatIfJobMix::Answer& answer : mix.answers) {
    if (!answer.not_predicted.empty()) continue;
    table.add({report::sharing_way_text(answer), format_seconds(answer.mean_completion_seconds), format_seconds(answer.makespan_seconds),
               fmt::format("{:.2f}", answer.prepared_per_sample), fmt::format("{:.2f}", answer.prepared_per_fastest), answer.method});
  }
  return table.text(width);
}

std::string jobs_table(const WhatIfJobMix& mix, const WhatIfJobMix::Answer& answer, std::size_t width) {
  Table table({{"job", Align::left}, {"own speed"}, {"samples/s"}, {"arrives"}, {"completion"}, {"preps"}}, 0);
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const WhatIfJobMix::Asked& asked = mix.jobs[i];
    const WhatIfJobMix::Job& job = answer.jobs[i];
    table.add({asked.name, format_number(asked.samples_per_s), format_number(job.samples_per_s), format_seconds(asked.arrival_seconds),
               format_seconds(job.completion_seconds), fmt::format("{:.2f}", job.prepared_per_sample)});
  }
  return table.text(width);
}

/// Of each kind of sharing the answer whose jobs complete first; the others' jobs are in JSON.
std::vector<const WhatIfJobMix::Answer*> shown_in_full(const WhatIfJobMix& mix) {
  std::vector<const WhatIfJobMix::Answer*> best;
  for (const WhatIfJobMix::Answer& answer : mix.answers) {
    if (!answer.not_predicted.empty()) continue;
    const auto same = std::ranges::find(best, answer.share, [](const WhatIfJobMix::Answer* each) { return each->share; });
    if (same == best.end()) {
      best.push_back(&answer);
    } else if (answer.mean_completion_seconds < (*same)->mean_completion_seconds) {
      *same = &answer;
    }
  }
  return best;
}

/// What is predicted of a job mix: a table of the ways of sharing, then one of each job's rates.
std::string job_mix_section(const WhatIfJobMix& mix, const ConsoleStyle& style) {
  const std::size_t width = layout_width(style);
  std::string text = "\n" + paint("job mix", Ink::bold, style.colour) + "\n";
  text += paragraph("  ", report::job_mix_text(mix), width) + "\n" + ways_table(mix, width);
  for (const WhatIfJobMix::Answer& answer : mix.answers)
    if (!answer.not_predicted.empty())
      text += paragraph("  not predicted: ", fmt::format("{}: {}.", report::sharing_way_text(answer), answer.not_predicted), width);
  for (const WhatIfJobMix::Answer* answer : shown_in_full(mix))
    text += "\n" + paragraph("  ", fmt::format("{}, {}", report::sharing_way_text(*answer), answer->method), width) + jobs_table(mix, *answer, width);
  return text + "\n" + paragraph("  ", report::job_mix_notes(), width);
}

}  // namespace
}  // namespace dsanalyze::console

namespace dsanalyze {
namespace {

using console::Ink;
using console::paint;
using console::Table;
using report::binding_text;
using report::change_text;
using report::question_text;
using report::value_text;

/// The letter alone, where the table is wide.
std::string marked_letter(const WhatIfAnswer& answer) {
  return report::binding_letter(answer) + report::reservation_marks(answer) + (answer.measured && !answer.measured->verdict_right ? " !" : "");
}

/// "2,412 ± 30" and "-0.8 %".
void add_measured(const WhatIfAnswer& answer, std::vector<std::string>& cells) {
  if (!answer.measured) {
    cells.insert(cells.end(), {"not run", ""});
    return;
  }
  const WhatIfAnswer::Measured& measured = *answer.measured;
  cells.push_back(format_rate(measured.samples_per_s, measured.ci95_samples_per_s));
  cells.push_back(fmt::format("{:+.1f} %", 100 * measured.error));
}

bool is_of_launched_training(const WhatIfResult& result) {
  return !result.answers.empty() && !result.answers.front().detail.empty() && !report::is_transfer(result.answers.front());
}

std::string validation_details(const WhatIfResult& result) {
  const WhatIfValidation& validation = *result.validation;
  if (is_of_launched_training(result))
    return fmt::format(
        "{} of {} bottlenecks right or inconclusive; {} of the measured intervals overlap the predicted ones. The training as found ran at {} of the "
        "rate that it was profiled with, which is taken into account; without that, {} (worst).",
        validation.verdicts_right, validation.measured, format_share(validation.covered_share), format_share(validation.slowest),
        format_share(validation.worst_error_as_profiled));
  return fmt::format(
      "{} of {} verdicts right; {} of the rates lie in their 95 % intervals; {} of the windows void. Prep ran at {} to {} of the profile's speed, "
      "which is taken into account; without that, {} (worst).",
      validation.verdicts_right, validation.measured, format_share(validation.covered_share), format_share(validation.void_share),
      format_share(validation.slowest), format_share(validation.fastest), format_share(validation.worst_error_as_profiled));
}

std::string validation_section(const WhatIfResult& result, const ConsoleStyle& style) {
  if (!result.validation) return "";
  const WhatIfValidation& validation = *result.validation;
  const std::size_t width = console::layout_width(style);
  std::string text = "\n";
  for (const std::string& line : wrap(fmt::format("validation {}: {}", validation.outcome, validation.reason), width))
    text += paint(line, Ink::bold, style.colour) + "\n";
  text += paragraph("  ", validation_details(result), width);
  std::set<std::string> reasons;
  for (const WhatIfAnswer& answer : result.answers)
    if (!answer.measured && reasons.insert(answer.not_measured).second) text += paragraph("  not run: ", answer.not_measured + ".", width);
  return text;
}

/// The answers, and beside them what the machine says.
std::string answers_table(const WhatIfResult& result, std::size_t width) {
  const auto& answers = result.answers;
  const bool simulated = std::ranges::any_of(answers, [](const WhatIfAnswer& answer) { return answer.simulated.has_value(); });
  const bool measured = result.validation.has_value();
  const bool epochs = !measured && std::ranges::any_of(answers, [](const WhatIfAnswer& answer) { return answer.epoch_seconds > 0; });
  std::vector<Table::Column> columns{{"change", Table::Align::left}, {"samples/s", Table::Align::left}};
  if (epochs) columns.push_back({"epoch", Table::Align::right});
  if (simulated && !measured) columns.push_back({"stall p99", Table::Align::right});
  if (measured) columns.insert(columns.end(), {{"measured", Table::Align::left}, {"error", Table::Align::right}});
  columns.push_back({"bottleneck", Table::Align::left});
  if (!measured) columns.push_back({"speed-up", Table::Align::right});
  Table table(columns, 0);
  for (const WhatIfAnswer& answer : answers) {
    std::vector<std::string> cells{change_text(answer.change), format_rate(answer.samples_per_s, answer.ci95_samples_per_s)};
    if (epochs) cells.push_back(format_seconds(answer.epoch_seconds));
    if (simulated && !measured) cells.push_back(answer.simulated ? format_seconds(answer.simulated->stall_p99_seconds) : "-");
    if (measured) add_measured(answer, cells);
    cells.push_back(measured ? marked_letter(answer) : binding_text(answer));
    if (!measured) cells.push_back(fmt::format("{:.2f}x", answer.speedup));
    table.add(std::move(cells));
  }
  std::string text = table.text(width);
  if (std::ranges::any_of(answers, &WhatIfAnswer::too_close))
    text += paragraph("  ? ", "inconclusive: another bottleneck cannot be ruled out", width);
  if (std::ranges::any_of(answers, &WhatIfAnswer::far_extrapolated)) text += paragraph("  ~ ", report::far_extrapolated_text(), width);
  if (std::ranges::any_of(answers, [](const WhatIfAnswer& answer) { return answer.measured && !answer.measured->verdict_right; }))
    text += paragraph("  ! ", "another resource bound than was predicted", width);
  return text;
}

std::string found_section(const std::vector<WhatIfFound>& found, const ConsoleStyle& style) {
  std::string text;
  for (const WhatIfFound& one : found) {
    const std::string heading = question_text(one.question) + ": " + (one.value ? value_text(*one.value, one.unit) : "none");
    text += "\n";
    for (const std::string& line : wrap(heading, console::layout_width(style))) text += paint(line, Ink::bold, style.colour) + "\n";
    text += paragraph("  ", one.then + ".", console::layout_width(style));
  }
  return text;
}

/// The first advice's steps; those of the others would hide them.
std::string steps_section(const AdviceRecord& first, std::size_t count, std::size_t width) {
  if (first.steps.empty()) return "";
  std::string text = paragraph("  ", count > 1 ? "the first of them, in a loader of your own (all: --json)" : "in a loader of your own", width);
  for (const LoaderStep& step : first.steps) text += paragraph("    ", step.loader + ": " + step.text + ".", width);
  return text;
}

std::string advice_section(const std::vector<AdviceRecord>& advice, std::size_t width) {
  if (advice.empty()) return "";
  std::string text = "\nadvice\n";
  for (const AdviceRecord& one : advice) text += paragraph("  - ", one.text, width);
  // All advice of one answer rests on the same rates.
  text += paragraph("    ", fmt::format("({})", fmt::join(advice.front().evidence, "; ")), width);
  return text + steps_section(advice.front(), advice.size(), width);
}

}  // namespace

std::string console_summary(const WhatIfResult& result, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  std::string text = paragraph("", result.model, width);
  const bool knows_cache = !is_of_launched_training(result);
  text += paragraph(
      "", "from " + result.source + (knows_cache ? fmt::format("; {} of the dataset cached", format_share(result.base_cache_fraction)) : ""), width);
  if (result.attained) text += paragraph("", "as measured, " + report::attained_text(result), width);
  text += "\n" + answers_table(result, width);
  text += validation_section(result, style);
  text += found_section(result.found, style);
  if (result.job_mix) text += console::job_mix_section(*result.job_mix, style);
  if (result.search) text += console::search_section(*result.search, style);
  text += advice_section(result.advice, width);
  std::vector<Finding> findings = result.findings;
  if (result.search) findings.insert(findings.end(), result.search->findings.begin(), result.search->findings.end());
  return text + console::findings_section(findings, style);
}

}  // namespace dsanalyze
