#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"
#include "profile_text.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::array shown_shares{0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100};

/// Distributions of one thing, a line each.
class DistributionFigure {
 public:
  /// Values are shown times `shown_as`, in `unit`; of so many `what`.
  DistributionFigure(const std::string& name, const std::string& title, const std::string& unit, double shown_as, const std::string& what)
      : m_title(title), m_shown_as(shown_as), m_table{title + ", " + unit, {{"of", Align::left}, {"mean"}, {what}}} {
    for (const int share : shown_shares) m_table.columns.push_back({share == 0 ? "min" : share == 100 ? "max" : fmt::format("p{}", share)});
    m_chart.name = name;
    m_chart.title = title;
    m_chart.x_label = "share of them that lie under, %";
    m_chart.y_label = unit;
  }

  void add(const std::string& label, const std::optional<DistributionRecord>& record) {
    if (!record || record->quantiles.size() < 2) return;
    std::vector<std::string> cells{label, format_number(record->mean * m_shown_as), count_text(record->count)};
    Chart::Series series{label, "", {}};
    const auto steps = static_cast<double>(record->quantiles.size() - 1);
    for (const int share : shown_shares) {
      const double value = record->quantiles[static_cast<std::size_t>(std::lround(share / 100.0 * steps))] * m_shown_as;
      cells.push_back(format_number(value));
      series.points.push_back({static_cast<double>(share), value});
    }
    m_table.add(cells);
    m_chart.series.push_back(std::move(series));
  }

  void put_into(Section& section, const std::string& text) && {
    if (!m_table.rows.empty()) section.blocks.emplace_back(Figure{m_title, text, {std::move(m_chart)}, std::move(m_table)});
  }

 private:
  std::string m_title;
  double m_shown_as;
  Table m_table;
  Chart m_chart;
};

Figure waits(ProfileViews views) {
  Table table{"how long an accelerator waits for its next batch",
              with_label(views, {{"run", Align::left}, {"first batch"}, {"p50 wait"}, {"p99 wait"}, {"first batch of an epoch"}})};
  for (const ProfileView& view : views)
    for (const RunRecord& run : view.profile->runs)
      if (run.name == "cached" || run.name == "full")
        add_row(views, view, table,
                {run.name, format_seconds(run.first_batch_seconds), format_seconds(run.stall_p50_seconds), format_seconds(run.stall_p99_seconds),
                 format_seconds(run.stall_epoch_boundary_seconds)});
  return {"Waits for a batch",
          "In the run cached everything comes from the cache, so what is waited for is prep; the run full reads what the cache does not hold.",
          {},
          std::move(table)};
}

std::string points_apart(double share, double from) { return fmt::format("{:+.1f} points", (share - from) * 100); }

/// A line of the table, where some profile lost what its rates do not explain.
void add_interference(ProfileViews views, Table& table) {
  const auto has = [](const ProfileView& view) { return view.profile->stalls && view.profile->stalls->interference; };
  if (std::ranges::none_of(views, has)) return;
  std::vector<std::string> cells{"interference"};
  std::optional<double> first;
  for (const ProfileView& view : views) {
    if (!view.profile->stalls) continue;
    const StallRecord lost = view.profile->stalls->interference.value_or(StallRecord{});
    cells.push_back(has(view) ? share_with_interval(lost) : "-");
    cells.push_back(first ? points_apart(lost.fraction, *first) : has(view) ? seconds_text(lost.seconds_per_epoch) : "-");
    if (!first) first = lost.fraction;
  }
  table.add(cells);
}

Table stall_shares(ProfileViews views) {
  Table table{"shares of an epoch with 95 % intervals", {{"an epoch's time", Align::left}}};
  const ProfileResult::Stalls* first = nullptr;
  for (const ProfileView& view : views) {
    if (!view.profile->stalls) continue;
    table.columns.push_back({views.size() > 1 ? view.label : "share"});
    table.columns.push_back({first == nullptr ? "time an epoch" : "difference"});
    if (first == nullptr) first = &*view.profile->stalls;
  }
  const std::array<std::pair<std::string, StallRecord ProfileResult::Stalls::*>, 3> parts{
      {{"compute", &ProfileResult::Stalls::compute}, {"prep stall", &ProfileResult::Stalls::prep}, {"fetch stall", &ProfileResult::Stalls::fetch}}};
  if (first == nullptr) return table;
  for (const auto& [name, part] : parts) {
    std::vector<std::string> cells{name};
    for (const ProfileView& view : views) {
      if (!view.profile->stalls) continue;
      const StallRecord& stall = (*view.profile->stalls).*part;
      cells.push_back(share_with_interval(stall));
      cells.push_back(&*view.profile->stalls == first ? seconds_text(stall.seconds_per_epoch)
                                                      : points_apart(stall.fraction, (first->*part).fraction));
    }
    table.add(cells);
  }
  add_interference(views, table);
  return table;
}

/// Whatever MLPerf Storage calls it, under its own name and formula.
void add_utilisation(ProfileViews views, Section& section) {
  Table table{
      "AU as MLPerf Storage defines it; these are no MLPerf results",
      with_label(views,
                 {{"run", Align::left}, {"AU, %"}, {"compute time"}, {"total time"}, {"batches"}, {"accelerators"}, {"formula", Align::left}})};
  for (const ProfileView& view : views)
    for (const RunRecord& run : view.profile->runs)
      if (const auto& au = run.mlperf_storage_au)
        add_row(views, view, table,
                {run.name, format_number(au->value), format_seconds(au->compute_seconds), format_seconds(au->total_seconds), count_text(au->steps),
                 fmt::format("{}", au->accelerators), au->formula});
  if (table.rows.empty()) return;
  section.blocks.emplace_back(
      Figure{"Accelerator utilisation (MLPerf Storage AU)", "The share of the time in which the accelerators compute.", {}, std::move(table)});
}

}  // namespace

Section stalls_section(ProfileViews views) {
  Section section{"stalls", "What is lost to waiting"};
  Table shares = stall_shares(views);
  if (!shares.rows.empty())
    section.blocks.emplace_back(
        Figure{"",
               "A prep stall is time in which accelerators wait for the CPU, a fetch stall time in which they wait for storage or the "
               "cache, in spite of reading and preparing ahead: the differences between runs with and without that part, so far as the rates explain "
               "them. What they do not explain is interference: stages that run at once, and other processes, take from one another.",
               {},
               std::move(shares)});
  Figure figure = waits(views);
  if (!figure.table.rows.empty()) section.blocks.emplace_back(std::move(figure));
  DistributionFigure all_waits("stalls", "How the waits are distributed", "ms", 1000, "waits");
  for (const ProfileView& view : views)
    for (const RunRecord& run : view.profile->runs) all_waits.add(views.size() > 1 ? view.label + ", " + run.name : run.name, run.stall_seconds);
  std::move(all_waits).put_into(section, "An accelerator's waits for its next batch.");
  add_utilisation(views, section);
  return section;
}

Section distributions_section(ProfileViews views) {
  Section section{"distributions", "How samples differ"};
  DistributionFigure bytes("distribution-bytes", "Size of a sample", "KiB", 1 / 1024.0, "samples");
  DistributionFigure prep("distribution-prep", "Prep of a sample on one worker", "ms", 1000, "samples");
  DistributionFigure requests("distribution-reads", "One read, among as many as the run had in flight", "ms", 1000, "reads");
  for (const ProfileView& view : views) {
    const std::string label = views.size() > 1 ? view.label : "this profile";
    bytes.add(label, view.profile->distributions.sample_bytes);
    prep.add(label, view.profile->distributions.prep_seconds);
    requests.add(label, view.profile->distributions.request_seconds);
  }
  std::move(bytes).put_into(section, "");
  std::move(prep).put_into(section, "");
  std::move(requests).put_into(section, "");
  return section;
}

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
  Table table{"the time between two epochs", with_label(views, {{"epochs seen"}, {"time each"}, {"validation"}, {"workers"}, {"other"}})};
  for (const ProfileView& view : views) {
    if (!view.profile->waits || !view.profile->waits->between_epochs) continue;
    const BetweenEpochsRecord& between = *view.profile->waits->between_epochs;
    add_row(views, view, table,
            {fmt::format("{}", between.epochs), format_seconds(between.seconds), format_seconds(between.validation_seconds),
             format_seconds(between.data_seconds), format_seconds(between.outside_seconds)});
  }
  return {"", "From the end of one epoch to the first request for a batch of the next, as found.", {}, std::move(table)};
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

Figure loader_reads(ProfileViews views) {
  Table table{"what the loader reads of its dataset",
              with_label(views, {{"files"}, {"bytes a sample"}, {"requests a sample"}, {"bytes a request"}, {"by name"}, {"memory-mapped"}})};
  for (const ProfileView& view : views) {
    if (!view.profile->reads) continue;
    const ReadsRecord& reads = *view.profile->reads;
    add_row(views, view, table,
            {format_number(static_cast<double>(reads.files)), format_bytes(static_cast<Bytes>(reads.bytes_per_sample)),
             format_number(reads.requests_per_sample), format_bytes(static_cast<Bytes>(reads.mean_request_bytes)),
             reads.ordered_fraction ? format_share(*reads.ordered_fraction) : "-", reads.mapped_files > 0 ? format_bytes(reads.mapped_bytes) : "-"});
  }
  return {"", "Of the run full, by the calls of its processes. By name are changes from one file to the next one.", {}, std::move(table)};
}

Figure hot_stages(ProfileViews views) {
  Table table{"what the workers compute",
              with_label(views, {{"what", Align::left}, {"of their CPU time"}, {"95 % interval"}, {"where", Align::left}})};
  for (const ProfileView& view : views)
    for (const StageRecord& stage : view.profile->hot)
      add_row(views, view, table,
              {printable(stage.name), format_share(stage.fraction),
               stage.ci95_fraction ? fmt::format("{} to {}", format_share(stage.ci95_fraction->low), format_share(stage.ci95_fraction->high)) : "-",
               fmt::format("{}:{}", printable(stage.file), stage.line)});
  return {"",
          "Each worker was looked at about 25 times a second while the loader was drained; the line is where it was seen first.",
          {},
          std::move(table)};
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
  if (std::ranges::any_of(views, [](const ProfileView& view) { return view.profile->reads && view.profile->reads->files > 0; }))
    section.blocks.emplace_back(loader_reads(views));
  if (std::ranges::any_of(views, [](const ProfileView& view) { return !view.profile->hot.empty(); })) section.blocks.emplace_back(hot_stages(views));
  return section;
}

}  // namespace dsanalyze::report
