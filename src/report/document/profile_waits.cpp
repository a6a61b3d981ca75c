#include <fmt/format.h>

#include <algorithm>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"
#include "profile_tables.hpp"
#include "profile_text.hpp"

namespace dsanalyze::report {
namespace {

std::string part_text(const WaitRecord& part) { return fmt::format("{} ({})", format_seconds(part.seconds_per_step), format_share(part.fraction)); }

Figure step_parts(ProfileViews views) {
  Table table{
      "the parts of a training step, each clocked by itself",
      with_label(views,
                 {{"rank", Align::left}, {"waiting for data"}, {"waiting for ranks"}, {"compute"}, {"outside"}, {"validation"}, {"unexplained"}})};
  for (const ProfileView& view : views) {
    if (!view.profile->waits) continue;
    const WaitsRecord& waits = *view.profile->waits;
    add_row(views, view, table,
            {waits.by_rank.empty() ? "all" : "mean", part_text(waits.data), part_text(waits.ranks), part_text(waits.compute),
             part_text(waits.outside), part_text(waits.validation), part_text(waits.unexplained)});
    for (const RankWaitsRecord& rank : waits.by_rank)
      add_row(
          views, view, table,
          {fmt::format("{}", rank.rank), part_text(rank.data), part_text(rank.ranks), part_text(rank.compute), part_text(rank.outside), "-", "-"});
  }
  return {"",
          "Of the run full, the training as found. Outside is what the script does between the optimizer's step and its next request for a batch; "
          "validation is a part of it.",
          {},
          std::move(table)};
}

Figure between_epochs(ProfileViews views) {
  Table table{"the time between two epochs",
              with_label(views, {{"epochs seen"}, {"time each"}, {"validation"}, {"workers and first batch"}, {"other"}})};
  for (const ProfileView& view : views) {
    if (!view.profile->waits || !view.profile->waits->between_epochs) continue;
    const BetweenEpochsRecord& between = *view.profile->waits->between_epochs;
    add_row(views, view, table,
            {fmt::format("{}", between.epochs), format_seconds(between.seconds), format_seconds(between.validation_seconds),
             format_seconds(between.data_seconds), format_seconds(between.outside_seconds)});
  }
  return {"", "From the end of one epoch to the first batch of the next, as found.", {}, std::move(table)};
}

Figure prep_by_workers(ProfileViews views) {
  Table table{"P by the number of workers", with_label(views, {{"workers"}, {"samples/s"}, {"CPU of the training process a sample"}})};
  for (const ProfileView& view : views)
    for (const WorkerPoint& point : view.profile->prep_by_workers)
      add_row(views, view, table,
              {fmt::format("{}", point.workers), format_rate(point.samples_per_s, point.ci95_samples_per_s),
               point.main_thread_seconds_per_sample ? format_seconds(*point.main_thread_seconds_per_sample) : "not known"});
  return {"", "The training's own loader, drained without steps over a subset in memory.", {}, std::move(table)};
}

}  // namespace

Section waits_section(ProfileViews views) {
  Section section{"waits", "Where a step's time goes"};
  if (std::ranges::any_of(views, [](const ProfileView& view) { return view.profile->waits.has_value(); }))
    section.blocks.emplace_back(step_parts(views));
  if (std::ranges::any_of(views, [](const ProfileView& view) { return view.profile->waits && view.profile->waits->between_epochs; }))
    section.blocks.emplace_back(between_epochs(views));
  if (std::ranges::any_of(views, [](const ProfileView& view) { return !view.profile->prep_by_workers.empty(); }))
    section.blocks.emplace_back(prep_by_workers(views));
  return section;
}

}  // namespace dsanalyze::report
