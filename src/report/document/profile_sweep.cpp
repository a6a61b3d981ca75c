#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"

namespace dsanalyze::report {
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
  std::vector<std::vector<Setting>> settings;
  settings.reserve(views.size());
  for (const ProfileView& view : views) settings.push_back(settings_of(*view.profile));
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
