#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "console_table.hpp"
#include "report/report.hpp"

namespace dsanalyze {
namespace {

std::string counted(std::uint64_t count) { return format_number(static_cast<double>(count)); }

std::string plural(std::uint64_t count, std::string_view what) { return fmt::format("{} {}{}", counted(count), what, count == 1 ? "" : "s"); }

std::string end_words(const std::string& end) {
  if (end == "finished") return "all epochs were trained";
  if (end == "left") return "the last job left";
  if (end == "commands-ended") return "all commands ended";
  return "interrupted";
}

std::string job_end_words(JobEnd end) {
  if (end == JobEnd::garbage) return "put out (garbage)";
  if (end == JobEnd::none) return "was there";
  if (end == JobEnd::finished) return "had all before";
  return enum_name(end);
}

std::string drawn_words(const ShareDependentRecord& dependent) {
  const double each = static_cast<double>(dependent.samples_drawn) / static_cast<double>(std::max<std::uint64_t>(dependent.samples_prepared, 1));
  return fmt::format("jobs drew dependently: each prepared sample was given to {:.2f} jobs; {} came from the store ({}, {}; {} with those in flight)",
                     each, plural(dependent.samples_from_store, "sample"), dependent.policy, plural(dependent.store_samples, "place"),
                     format_bytes(dependent.store_bytes));
}

std::string jobs_table(const ShareResult& result, std::size_t width) {
  using enum console::Table::Align;
  console::Table table(
      {{"job", right}, {"from epoch", right}, {"samples", right}, {"prepared", right}, {"batches taken over", right}, {"read", right}, {"end", left}},
      6);
  for (const ShareJobRecord& job : result.jobs) {
    table.add({fmt::format("{}", job.place), fmt::format("{}", job.first_epoch), counted(job.samples_taken), counted(job.samples_prepared),
               counted(job.batches_taken_over), format_bytes(job.requested_bytes), job_end_words(job.end)});
  }
  return table.text(width);
}

std::string end_of(const ShareCommandRecord& command) {
  return command.signal ? fmt::format("was killed by signal {}", *command.signal)
                        : fmt::format("ended with exit status {}", command.exit_status.value_or(0));
}

std::string failed_commands(const ShareResult& result, std::size_t width) {
  std::string text;
  for (const ShareCommandRecord& each : result.commands) {
    if (each.attached == false) {
      text += paragraph("  ", fmt::format("the command of job {} never attached, and {}", each.job, end_of(each)), width);
    } else if (took_nothing(each)) {
      text += paragraph("  ", fmt::format("the command of job {} attached, took no batch, and {}", each.job, end_of(each)), width);
    } else if (each.exit_status != 0) {
      text += paragraph("  ", fmt::format("the command of job {} {}", each.job, end_of(each)), width);
    }
  }
  return text;
}

}  // namespace

std::string console_summary(const ShareResult& result, const ConsoleStyle& style) {
  const std::size_t width = console::layout_width(style);
  const ShareTermsRecord& terms = result.terms;
  const std::string shared = result.jobs.empty()
                                 ? "shared nothing, for no job attached,"
                                 : fmt::format("shared {} with {}", plural(result.epochs, "epoch"), plural(result.jobs.size(), "job"));
  std::string text = paragraph("", fmt::format("{} in {}: {}", shared, format_seconds(result.seconds), end_words(result.end)), width);
  text += paragraph(
      "  ",
      fmt::format("dataset: {}, {} ({}) an epoch, in batches of {}{}; prep: {}", printable(result.dataset.path), plural(terms.samples, "sample"),
                  format_bytes(result.dataset.bytes), terms.batch_size, result.dependent ? " where a job does not say" : "", printable(terms.prep)),
      width);
  text += paragraph("  ",
                    fmt::format("{} were prepared {}, and {} trained on; {} were asked of storage", plural(result.samples_prepared, "sample"),
                                terms.producers == "jobs" ? "by the jobs" : "by the coordinator", counted(result.samples_taken),
                                format_bytes(result.requested_bytes)),
                    width);
  if (result.dependent) text += paragraph("  ", drawn_words(*result.dependent), width);
  text += paragraph(
      "  ",
      fmt::format("memory: at most {} of {} staged, and {} beside them: {}; {} were shared", fmt::format("{} batches", result.memory.staged_batches),
                  format_bytes(result.memory.slot_bytes), format_bytes(result.memory.constant_bytes), format_bytes(result.memory.bound_bytes),
                  format_bytes(result.memory.shared_bytes)),
      width);
  if (result.batches_taken_over > 0)
    text += paragraph("  ", fmt::format("{} of jobs that went were made by others", fmt::format("{} batches", counted(result.batches_taken_over))),
                      width);
  if (result.late_reports > 0)
    text += paragraph("  ",
                      fmt::format("jobs waited longer than ten of their iterations {}",
                                  result.late_reports == 1 ? "once" : counted(result.late_reports) + " times"),
                      width);
  if (result.refused > 0)
    text += paragraph("  ", fmt::format("{} refused", result.refused == 1 ? "one process was" : counted(result.refused) + " processes were"), width);
  if (!result.jobs.empty()) text += "\n" + jobs_table(result, width);
  if (const std::string failed = failed_commands(result, width); !failed.empty()) text += "\n" + failed;
  return text;
}

}  // namespace dsanalyze
