#include "console_job_mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "console_table.hpp"
#include "core/records/rate_text.hpp"
#include "report/document/record_texts.hpp"

namespace dsanalyze::console {
namespace {

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

}  // namespace

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

}  // namespace dsanalyze::console
