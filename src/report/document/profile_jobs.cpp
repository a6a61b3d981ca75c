#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"
#include "profile_text.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t most_job_epoch_rows = 300;

Table jobs_table(ProfileViews views) {
  const auto has_speed = [](const JobRecord& job) { return job.speed.has_value(); };
  const bool speeds = std::ranges::any_of(views, [&](const ProfileView& view) { return std::ranges::any_of(view.profile->jobs, has_speed); });
  std::vector<Column> columns{{"job"},    {"samples/s"}, {"an epoch"},   {"stalled"}, {"first batch"},  {"samples"},
                              {"failed"}, {"prepared"},  {"cache hits"}, {"misses"},  {"from storage"}, {"end", Align::left}};
  if (speeds) columns.insert(columns.begin() + 1, Column{"speed"});
  Table table{"each job in the full run", with_label(views, std::move(columns))};
  for (const ProfileView& view : views)
    for (const JobRecord& job : view.profile->jobs) {
      std::vector<std::string> cells{fmt::format("{}", job.job),
                                     format_rate(job.samples_per_s, job.ci95_samples_per_s),
                                     seconds_text(job.epoch_seconds),
                                     format_share(job.stall_fraction),
                                     seconds_text(job.first_batch_seconds),
                                     count_text(job.samples),
                                     count_text(job.samples_failed),
                                     count_text(job.samples_prepared),
                                     count_text(job.cache_hits),
                                     count_text(job.cache_misses),
                                     bytes_text(job.storage_bytes),
                                     job_end_text(job)};
      if (speeds) cells.insert(cells.begin() + 1, format_number(job.speed.value_or(1)));
      add_row(views, view, table, std::move(cells));
    }
  return table;
}

Table trials_table(ProfileViews views) {
  Table table{"what the search tried, in the order in which it was begun",
              with_label(views, {{"trial"}, {"job"}, {"epochs"}, {"took"}, {"judged by", Align::left}, {"found"}, {"end", Align::left}})};
  for (const ProfileView& view : views)
    for (const SearchTrialRecord& trial : view.profile->trials)
      add_row(views, view, table,
              {fmt::format("{}", trial.trial), fmt::format("{}", trial.job), count_text(trial.epochs), seconds_text(trial.seconds),
               judged_by_text(trial), format_number(trial.value), enum_name(trial.end)});
  return table;
}

Table job_epochs_table(ProfileViews views) {
  Table table{"the epochs of each job", with_label(views, {{"job"},
                                                           {"epoch"},
                                                           {"took"},
                                                           {"samples"},
                                                           {"prepared"},
                                                           {"from storage"},
                                                           {"asked of storage"},
                                                           {"cache hits"},
                                                           {"misses"},
                                                           {"digest of the samples", Align::left}})};
  std::size_t jobs = 0, all = 0, shown = 0;
  for (const ProfileView& view : views) jobs += view.profile->jobs.size();
  for (const ProfileView& view : views)
    for (const JobRecord& job : view.profile->jobs) {
      const auto chosen = spread(job.epochs.size(), std::max<std::size_t>(most_job_epoch_rows / jobs, 4));
      all += job.epochs.size();
      shown += chosen.size();
      for (const std::size_t at : chosen) {
        const JobEpochRecord& epoch = job.epochs[at];
        add_row(views, view, table,
                {fmt::format("{}", job.job), count_text(epoch.epoch), format_seconds(epoch.seconds), count_text(epoch.samples),
                 count_text(epoch.samples_prepared), bytes_text(epoch.storage_bytes), bytes_text(epoch.requested_bytes), count_text(epoch.cache_hits),
                 count_text(epoch.cache_misses), epoch.digest});
      }
    }
  say_shown(table, shown, all);
  return table;
}

}  // namespace

Section jobs_section(ProfileViews views) {
  Section section{"jobs", "Jobs side by side"};
  for (const ProfileView& view : views)
    if (view.profile->sharing)
      section.blocks.emplace_back(Paragraph{(views.size() > 1 ? view.label + ": " : "") + sharing_text(*view.profile->sharing) + "."});
  Table jobs = jobs_table(views);
  if (!jobs.rows.empty())
    section.blocks.emplace_back(Figure{"",
                                       "Each job trains on the whole dataset. The run full above is that of all together. Prepared, "
                                       "hits, misses and storage are what the job did itself.",
                                       {},
                                       std::move(jobs)});
  Table trials = trials_table(views);
  if (!trials.rows.empty()) section.blocks.emplace_back(Figure{"Trials", "", {}, std::move(trials)});
  Table epochs = job_epochs_table(views);
  if (!epochs.rows.empty())
    section.blocks.emplace_back(
        Figure{"Epochs of each job", "Equal digests: the same samples, in whatever order.", {}, std::move(epochs), Folding::folded});
  return section;
}

}  // namespace dsanalyze::report
