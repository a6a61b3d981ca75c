#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t most_timeline_points = 500;
constexpr std::size_t most_epoch_rows = 300;
constexpr double gib = 1024.0 * 1024 * 1024;

std::string series_label(ProfileViews views, const ProfileView& view, const RunRecord& run) {
  return views.size() > 1 ? view.label + ", " + run.name : run.name;
}

Table runs_table(ProfileViews views) {
  Table table{
      "the runs of the profile",
      with_label(views, {{"run", Align::left}, {"samples/s"}, {"an epoch"}, {"took"}, {"from storage"}, {"cache hits"}, {"misses"}, {"failed"}})};
  for (const ProfileView& view : views)
    for (const RunRecord& run : view.profile->runs)
      add_row(views, view, table,
              {run.name, format_rate(run.samples_per_s, run.ci95_samples_per_s), seconds_text(run.epoch_seconds), seconds_text(run.seconds),
               bytes_text(run.storage_bytes), count_text(run.cache_hits), count_text(run.cache_misses), count_text(run.samples_failed)});
  return table;
}

Table failures_table(ProfileViews views) {
  Table table{"samples that could not be used",
              with_label(views, {{"run", Align::left}, {"cause", Align::left}, {"samples"}, {"the first", Align::left}})};
  for (const ProfileView& view : views)
    for (const RunRecord& run : view.profile->runs)
      for (const FailureRecord& failure : run.failures)
        add_row(views, view, table, {run.name, failure.cause, count_text(failure.count), failure.example});
  return table;
}

Table epochs_table(ProfileViews views) {
  const bool ranks = std::ranges::any_of(views, [](const ProfileView& view) { return !view.profile->ranks.empty(); });
  std::vector<Column> columns{{"run", Align::left}, {"epoch"},      {"took"},  {"samples"}, {"from storage"},
                              {"asked of storage"}, {"cache hits"}, {"misses"}};
  if (ranks) columns.insert(columns.end(), {{"others' caches"}, {"from others"}});
  Table table{"the epochs of each run", with_label(views, std::move(columns))};
  std::size_t all = 0, shown = 0, runs = 0;
  for (const ProfileView& view : views) runs += view.profile->runs.size();
  for (const ProfileView& view : views)
    for (const RunRecord& run : view.profile->runs) {
      const auto chosen = spread(run.epochs.size(), std::max<std::size_t>(most_epoch_rows / std::max<std::size_t>(runs, 1), 4));
      all += run.epochs.size();
      shown += chosen.size();
      for (const std::size_t at : chosen) {
        const EpochRecord& epoch = run.epochs[at];
        std::vector<std::string> cells{run.name,
                                       count_text(epoch.epoch),
                                       format_seconds(epoch.seconds),
                                       count_text(epoch.samples),
                                       bytes_text(epoch.storage_bytes),
                                       bytes_text(epoch.requested_bytes),
                                       count_text(epoch.cache_hits),
                                       count_text(epoch.cache_misses)};
        if (ranks) cells.insert(cells.end(), {count_text(epoch.peer_hits), format_bytes(epoch.peer_bytes)});
        add_row(views, view, table, std::move(cells));
      }
    }
  say_shown(table, shown, all);
  return table;
}

/// One thing that was read over time.
struct Reading {
  std::string name, title, label;
  std::function<double(const TimelineRecord&)> value;
};

std::span<const Reading> readings() {
  static const std::array<Reading, 4> all{
      {{"timeline-storage", "from storage, MB/s", "MB/s", [](const TimelineRecord& each) { return each.storage_bytes_per_s / 1e6; }},
       {"timeline-hits", "cache hits, % of lookups", "%", [](const TimelineRecord& each) { return each.cache_hit_fraction * 100; }},
       {"timeline-cpu", "CPU time, % of the usable cores", "%", [](const TimelineRecord& each) { return each.cpu_fraction * 100; }},
       {"timeline-memory", "memory, GiB", "GiB", [](const TimelineRecord& each) { return static_cast<double>(each.memory_bytes) / gib; }}}};
  return all;
}

/// Of several results the run that trains as it would for real; of one, all of them.
std::vector<const RunRecord*> timed_runs(ProfileViews views, const ProfileView& view) {
  std::vector<const RunRecord*> runs;
  for (const RunRecord& run : view.profile->runs)
    if (!run.timeline.empty()) runs.push_back(&run);
  if (views.size() > 1 && runs.size() > 1) runs.erase(runs.begin(), runs.end() - 1);
  return runs;
}

}  // namespace

Section runs_section(ProfileViews views) {
  Section section{"runs", "Runs"};
  Table table = runs_table(views);
  if (table.rows.empty()) return section;
  section.blocks.emplace_back(
      Figure{"",
             "Synthetic: batches that are there already. Prep: everything in memory. Cached: the same, with accelerators. Fetch: reading "
             "alone. Full: all of it, as one would train.",
             {},
             std::move(table)});
  Table failures = failures_table(views);
  if (!failures.rows.empty()) section.blocks.emplace_back(Figure{"Failures", "", {}, std::move(failures)});
  Table epochs = epochs_table(views);
  if (!epochs.rows.empty()) section.blocks.emplace_back(Figure{"Epochs", "", {}, std::move(epochs), Folding::folded});
  return section;
}

std::vector<std::size_t> timeline_points(ProfileViews views, const RunRecord& run) {
  std::size_t runs = 0;
  for (const ProfileView& view : views) runs += timed_runs(views, view).size();
  return spread(run.timeline.size(), std::max<std::size_t>(most_timeline_points / std::max<std::size_t>(runs, 1), 12));
}

Section timeline_section(ProfileViews views) {
  Section section{"timeline", "Over time"};
  Figure figure;
  figure.text = "Storage, cache, CPU and memory while the runs were made [DS-Analyzer, Figures 11, 19, 20].";
  figure.folding = Folding::folded;
  figure.table = {"readings over time",
                  with_label(views, {{"run", Align::left}, {"into the run, s"}, {"storage, MB/s"}, {"cache hits, %"}, {"CPU, %"}, {"memory, GiB"}})};
  for (const Reading& reading : readings()) {
    Chart chart;
    chart.name = reading.name;
    chart.title = reading.title;
    chart.x_label = "seconds into the run";
    chart.y_label = reading.label;
    figure.charts.push_back(std::move(chart));
  }
  std::size_t all = 0;
  for (const ProfileView& view : views)
    for (const RunRecord* run : timed_runs(views, view)) {
      all += run->timeline.size();
      std::array<Chart::Series, 4> series;
      for (Chart::Series& each : series) each.label = series_label(views, view, *run);
      for (const std::size_t at : timeline_points(views, *run)) {
        const TimelineRecord& record = run->timeline[at];
        std::vector<std::string> cells{run->name, fmt::format("{:.2f}", record.t_seconds)};
        for (std::size_t which = 0; which < readings().size(); ++which) {
          const double value = readings()[which].value(record);
          series[which].points.push_back({record.t_seconds, value});
          cells.push_back(format_number(value));
        }
        add_row(views, view, figure.table, cells);
      }
      for (std::size_t which = 0; which < series.size(); ++which) figure.charts[which].series.push_back(std::move(series[which]));
    }
  if (all == 0) return section;
  if (figure.table.rows.size() < all)
    figure.text +=
        fmt::format(" {} of {} readings are shown, evenly spread; the JSON record has them all.", figure.table.rows.size(), count_text(all));
  section.blocks.emplace_back(std::move(figure));
  return section;
}

Section operators_section(ProfileViews views) {
  Section section{"operators", "What prep spends its time on"};
  Table table{"share of prep's CPU time, and the time that one sample takes on one worker",
              with_label(views, {{"run", Align::left}, {"operator", Align::left}, {"share"}, {"a sample"}})};
  Chart chart;
  chart.name = "operators";
  chart.title = "share of prep's CPU time by operator";
  chart.kind = Chart::Kind::bars;
  chart.y_label = "% of prep's CPU time";
  for (const ProfileView& view : views) {
    for (const RunRecord& run : view.profile->runs) {
      if (run.prep_operators.empty() || (views.size() > 1 && run.name != "prep")) continue;
      Chart::Series series{series_label(views, view, run), "", {}};
      for (const OperatorRecord& each : run.prep_operators) {
        auto place = std::ranges::find(chart.categories, each.name);
        if (place == chart.categories.end()) place = chart.categories.insert(place, each.name);
        series.points.push_back({static_cast<double>(place - chart.categories.begin()), each.fraction * 100});
        add_row(views, view, table,
                {run.name, each.name, format_share(each.fraction), each.seconds_per_sample ? format_seconds(*each.seconds_per_sample) : "not known"});
      }
      chart.series.push_back(std::move(series));
    }
  }
  if (table.rows.empty()) return section;
  section.blocks.emplace_back(Figure{"", "Of the CPU time that one sample takes in prep.", {std::move(chart)}, std::move(table)});
  return section;
}

}  // namespace dsanalyze::report
