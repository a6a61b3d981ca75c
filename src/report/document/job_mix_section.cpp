#include <fmt/format.h>

#include "core/records/rate_text.hpp"
#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {

std::string sharing_way_text(const WhatIfJobMix::Answer& answer) {
  if (answer.share == "none") return "nothing";
  if (answer.share != "dependent" || answer.staging_fraction.value_or(0) == 0) return answer.share;
  return fmt::format("{}, store of {}, {}", answer.share, format_share(*answer.staging_fraction), answer.staging_policy);
}

std::string job_mix_text(const WhatIfJobMix& mix) {
  return fmt::format("{} of {} samples; prep supplies {} samples/s [P], fetch {} [F] for one sweep that serves all jobs", mix.path,
                     format_number(static_cast<double>(mix.samples)), format_number(mix.prep), format_number(mix.fetch));
}

std::string job_mix_notes() {
  return "completion: from a job's arrival to the end of its last epoch, above the mean of all jobs; preps: preparings over the samples that jobs "
         "get, one "
         "for several jobs in equal parts; fastest: preparings of all jobs while the fastest job runs, over that job's samples";
}

Section job_mix_section(const WhatIfJobMix& mix) {
  Section section{"job-mix", "Jobs that differ"};
  Table ways{"each way of sharing", {{"jobs share", Align::left}, {"completion"}, {"makespan"}, {"preps"}, {"fastest"}, {"method", Align::left}}};
  Table jobs{"each job", {{"jobs share", Align::left}, {"job", Align::left}, {"own speed"}, {"samples/s"}, {"completion"}, {"preps"}}};
  List reasons;
  for (const WhatIfJobMix::Answer& answer : mix.answers) {
    const std::string way = sharing_way_text(answer);
    if (!answer.not_predicted.empty()) {
      reasons.items.push_back(fmt::format("Not predicted: {}: {}.", way, answer.not_predicted));
      continue;
    }
    ways.add({way, format_seconds(answer.mean_completion_seconds), format_seconds(answer.makespan_seconds),
              fmt::format("{:.2f}", answer.prepared_per_sample), fmt::format("{:.2f}", answer.prepared_per_fastest), answer.method});
    for (std::size_t i = 0; i < mix.jobs.size(); ++i)
      jobs.add({way, mix.jobs[i].name, format_number(mix.jobs[i].samples_per_s), format_number(answer.jobs[i].samples_per_s),
                format_seconds(answer.jobs[i].completion_seconds), fmt::format("{:.2f}", answer.jobs[i].prepared_per_sample)});
  }
  if (!ways.rows.empty()) {
    section.blocks.emplace_back(Figure{"", fmt::format("{}. {}.", job_mix_text(mix), job_mix_notes()), {}, std::move(ways)});
    section.blocks.emplace_back(Figure{"", "", {}, std::move(jobs)});
  }
  if (!reasons.items.empty()) section.blocks.emplace_back(std::move(reasons));
  return section;
}

}  // namespace dsanalyze::report
