#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "profile_document.hpp"
#include "profile_text.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t most_loss_rows = 300;
constexpr std::size_t least_loss_rows = 12;  ///< of a run, however many there are

/// Of each run, and of each job and rank in the full run.
template <typename Use>
void each_training(ProfileViews views, Use use) {
  for (const ProfileView& view : views) {
    for (const RunRecord& run : view.profile->runs)
      if (run.training) use(view, run.name, *run.training);
    for (const JobRecord& job : view.profile->jobs)
      if (job.training) use(view, fmt::format("full, job {}", job.job), *job.training);
    for (const RankRecord& rank : view.profile->ranks)
      if (rank.training) use(view, fmt::format("full, rank {}", rank.rank), *rank.training);
  }
}

Figure networks(ProfileViews views) {
  Table table{"the reference network", with_label(views, {{"run", Align::left},
                                                          {"inputs"},
                                                          {"hidden units"},
                                                          {"classes"},
                                                          {"parameters"},
                                                          {"numbers", Align::left},
                                                          {"learning rate"},
                                                          {"momentum"},
                                                          {"steps"}})};
  each_training(views, [&](const ProfileView& view, const std::string& run, const TrainingRecord& training) {
    add_row(views, view, table,
            {run, count_text(training.inputs), count_text(training.hidden), count_text(training.classes), count_text(training.parameters),
             training.precision, fmt::format("{:g}", training.learning_rate), fmt::format("{:g}", training.momentum), count_text(training.steps)});
  });
  return {"",
          "The CPU trained a small network (means over a grid of each image, one hidden layer, softmax) on the batches as they came, by stochastic "
          "gradient descent with momentum. It took cores that prep needs: the rates of these runs are not an accelerator's.",
          {},
          std::move(table)};
}

/// Losses over one thing: what a run's are, and what its rows begin with.
struct Losses {
  std::string name, title, text, over;
  std::vector<std::string> columns;
  std::function<std::size_t(const TrainingRecord&)> count;
  std::function<std::vector<std::string>(const TrainingRecord&, std::size_t)> cells;
  std::function<Chart::Point(const TrainingRecord&, std::size_t)> point;
};

Losses losses_by_epoch() {
  return {"loss-by-epoch",
          "mean loss of each epoch",
          "Each sample's loss before the step that it is part of. The last epoch of a run may be a part of one.",
          "epoch",
          {"epoch", "samples"},
          [](const TrainingRecord& training) { return training.by_epoch.size(); },
          [](const TrainingRecord& training, std::size_t at) {
            return std::vector<std::string>{count_text(training.by_epoch[at].epoch), count_text(training.by_epoch[at].samples)};
          },
          [](const TrainingRecord& training, std::size_t at) {
            return Chart::Point{static_cast<double>(training.by_epoch[at].epoch), training.by_epoch[at].loss};
          }};
}

Losses losses_by_step() {
  return {"loss-by-step",
          "mean loss of mini-batches",
          "Before the step that each of them makes.",
          "step",
          {"step"},
          [](const TrainingRecord& training) { return training.by_step.size(); },
          [](const TrainingRecord& training, std::size_t at) { return std::vector<std::string>{count_text(training.by_step[at].step)}; },
          [](const TrainingRecord& training, std::size_t at) {
            return Chart::Point{static_cast<double>(training.by_step[at].step), training.by_step[at].loss};
          }};
}

Figure loss_figure(ProfileViews views, const Losses& losses, Folding folding) {
  std::size_t runs = 0, all = 0, shown = 0;
  each_training(views, [&](const ProfileView&, const std::string&, const TrainingRecord&) { ++runs; });
  std::vector<Column> columns{{"run", Align::left}};
  for (const std::string& heading : losses.columns) columns.push_back({heading});
  columns.push_back({"loss"});
  Table table{losses.title, with_label(views, std::move(columns))};
  Chart chart;
  chart.name = losses.name;
  chart.title = losses.title;
  chart.x_label = losses.over;
  chart.y_label = "loss";
  each_training(views, [&](const ProfileView& view, const std::string& run, const TrainingRecord& training) {
    Chart::Series series{views.size() > 1 ? view.label + ", " + run : run, "", {}};
    const auto chosen = spread(losses.count(training), std::max<std::size_t>(most_loss_rows / runs, least_loss_rows));
    all += losses.count(training);
    shown += chosen.size();
    for (const std::size_t at : chosen) {
      series.points.push_back(losses.point(training, at));
      std::vector<std::string> cells = losses.cells(training, at);
      cells.insert(cells.begin(), run);
      cells.push_back(loss_text(series.points.back().y));
      add_row(views, view, table, std::move(cells));
    }
    chart.series.push_back(std::move(series));
  });
  if (shown < all) table.caption += fmt::format(", {} of {} (the JSON record has them all)", shown, count_text(all));
  return {"By " + losses.over, losses.text, {std::move(chart)}, std::move(table), folding};
}

}  // namespace

Section training_section(ProfileViews views) {
  Section section{"training", "What was learned"};
  Figure network = networks(views);
  if (network.table.rows.empty()) return section;
  section.blocks.emplace_back(std::move(network));
  section.blocks.emplace_back(loss_figure(views, losses_by_epoch(), Folding::open));
  section.blocks.emplace_back(loss_figure(views, losses_by_step(), Folding::folded));
  return section;
}

}  // namespace dsanalyze::report
