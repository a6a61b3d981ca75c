#include "sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"

namespace dsanalyze::report {
namespace {

using Point = Sweep::Point;
using Grid = std::map<double, std::map<double, const Point*>>;

/// The values that a factor takes, by their places.
std::map<double, SweepLevel> levels_of(const Sweep& sweep, std::size_t factor) {
  std::map<double, SweepLevel> levels;
  for (const Point& point : sweep.points) {
    const SweepLevel& level = point.levels[factor];
    const auto [at, is_new] = levels.try_emplace(level.place, level);
    if (!is_new && at->second.as_measured) at->second = level;
  }
  return levels;
}

const Point& highest(const Sweep& sweep) { return *std::ranges::max_element(sweep.points, {}, &Point::value); }

/// The points that stand where the best one does in all factors but two, by row and column.
Grid grid_of(const Sweep& sweep, const Point& best, std::size_t rows, std::size_t columns) {
  Grid grid;
  for (const Point& point : sweep.points) {
    bool held = true;
    for (std::size_t factor = 0; factor < sweep.factors.size(); ++factor)
      held = held && (factor == rows || factor == columns || point.levels[factor].place == best.levels[factor].place);
    if (held) grid[point.levels[rows].place].try_emplace(point.levels[columns].place, &point);
  }
  return grid;
}

bool is_full(const Grid& grid, const std::map<double, SweepLevel>& rows, const std::map<double, SweepLevel>& columns) {
  if (rows.size() < 2 || columns.size() < 2) return false;
  return std::ranges::all_of(rows, [&](const auto& row) {
    const auto found = grid.find(row.first);
    return found != grid.end() && std::ranges::all_of(columns, [&](const auto& column) { return found->second.contains(column.first); });
  });
}

void leave_out_as_measured(std::map<double, SweepLevel>& levels) {
  std::erase_if(levels, [](const auto& level) { return level.second.as_measured; });
}

int heat_of(double value, double low, double high) {
  constexpr double hottest = 9;
  return high > low ? static_cast<int>(std::lround(hottest * std::clamp((value - low) / (high - low), 0.0, 1.0))) : 0;
}

}  // namespace

std::optional<SweepMap> sweep_map(const Sweep& sweep, const std::string& what) {
  if (sweep.points.empty()) return std::nullopt;
  std::vector<std::size_t> factors;
  std::vector<std::map<double, SweepLevel>> levels;
  for (std::size_t factor = 0; factor < sweep.factors.size(); ++factor) {
    factors.push_back(factor);
    levels.push_back(levels_of(sweep, factor));
  }
  std::ranges::stable_sort(factors, std::ranges::greater(), [&](std::size_t factor) { return levels[factor].size(); });
  if (factors.size() < 2) return std::nullopt;
  const std::size_t row_factor = factors[0], column_factor = factors[1];
  auto& rows = levels[row_factor];
  auto& columns = levels[column_factor];
  const Point& best = highest(sweep);
  const Grid grid = grid_of(sweep, best, row_factor, column_factor);
  if (!is_full(grid, rows, columns)) {
    leave_out_as_measured(rows);
    leave_out_as_measured(columns);
    if (!is_full(grid, rows, columns)) return std::nullopt;
  }

  double low = best.value, high = 0;
  for (const auto& row : rows)
    for (const auto& column : columns) {
      const double value = grid.at(row.first).at(column.first)->value;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  SweepMap map;
  map.table.caption = fmt::format("{}; rows: {}, columns: {}", what, sweep.factors[row_factor], sweep.factors[column_factor]);
  map.table.columns.push_back({sweep.factors[row_factor], Align::left});
  for (const auto& column : columns) map.table.columns.push_back({column.second.text, Align::right});
  for (const auto& row : rows) {
    auto& cells = map.table.rows.emplace_back();
    cells.push_back({row.second.text});
    for (const auto& column : columns) {
      const Point& point = *grid.at(row.first).at(column.first);
      cells.push_back({point.text, Cell::Look::heat, heat_of(point.value, low, high)});
    }
  }
  for (const std::size_t factor : factors)
    if (factor != row_factor && factor != column_factor && levels[factor].size() > 1)
      map.held += fmt::format("{}{} {}", map.held.empty() ? "" : ", ", sweep.factors[factor], levels[factor].at(best.levels[factor].place).text);
  return map;
}

namespace {

/// A setting, or several that change together, with its value in each profile.
struct Varied {
  std::string name;
  std::vector<SweepLevel> levels;
};

/// Places by number; by first appearance where the values are words.
Varied varied(const std::vector<std::vector<Setting>>& settings, std::size_t at) {
  Varied one{settings.front()[at].name, {}};
  std::vector<std::string> words;
  for (const auto& each : settings) {
    auto word = std::ranges::find(words, each[at].text);
    if (word == words.end()) word = words.insert(words.end(), each[at].text);
    one.levels.push_back({each[at].number.value_or(static_cast<double>(word - words.begin())), each[at].text});
  }
  return one;
}

/// Whether each value of the one goes with one value of the other.
bool change_together(const Varied& one, const Varied& other) {
  for (std::size_t a = 0; a < one.levels.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if ((one.levels[a].place == one.levels[b].place) != (other.levels[a].place == other.levels[b].place)) return false;
  return true;
}

/// The settings that differ, those that change together as one.
std::vector<Varied> differing(ProfileViews views) {
  const std::vector<std::vector<Setting>> settings = settings_of_all(views);
  std::vector<Varied> all;
  for (std::size_t at = 0; at < settings.front().size(); ++at) {
    if (std::ranges::all_of(settings, [&](const auto& each) { return each[at].text == settings.front()[at].text; })) continue;
    Varied one = varied(settings, at);
    const auto same = std::ranges::find_if(all, [&](const Varied& other) { return change_together(one, other); });
    if (same == all.end())
      all.push_back(std::move(one));
    else
      same->name += ", " + one.name;
  }
  return all;
}

}  // namespace

std::optional<SweepMap> profile_sweep(ProfileViews views) {
  constexpr std::size_t least = 4;
  if (views.size() < least) return std::nullopt;
  const std::vector<Varied> factors = differing(views);
  if (factors.size() != 2) return std::nullopt;
  Sweep sweep{{factors[0].name, factors[1].name}, {}};
  std::set<std::pair<double, double>> combinations;
  for (std::size_t at = 0; at < views.size(); ++at) {
    const RunRecord* run = views[at].profile->run("full");
    const SweepLevel &one = factors[0].levels[at], &other = factors[1].levels[at];
    if (run == nullptr || !combinations.emplace(one.place, other.place).second) return std::nullopt;
    sweep.points.push_back({{one, other}, run->samples_per_s, format_rate(run->samples_per_s, run->ci95_samples_per_s)});
  }
  return sweep_map(sweep, "samples/s of the full run, measured");
}

Section sweep_section(ProfileViews views) {
  Section section{"sweep", "Two settings at once"};
  auto map = profile_sweep(views);
  if (map)
    section.blocks.emplace_back(
        Figure{"",
               "The results differ in these two settings alone. Each cell holds what the run full of one of them reached, with its 95 % "
               "interval. The darker, the faster.",
               {},
               std::move(map->table)});
  return section;
}

}  // namespace dsanalyze::report
