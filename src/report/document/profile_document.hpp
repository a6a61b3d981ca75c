#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/records/report_curves.hpp"
#include "core/records/result.hpp"
#include "document.hpp"
#include "sweep.hpp"

namespace dsanalyze::report {

/// One of the profiles that a report is about.
struct ProfileView {
  std::string label;
  const ProfileResult* profile = nullptr;
  const ReportCurves* curves = nullptr;
  std::size_t number = 0;  ///< among the report's results
};
using ProfileViews = std::span<const ProfileView>;

/// One profile, or several side by side. Throws nothing for records with little in them: sections without content are left out.
Document profile_document(ProfileViews views);

// The parts. Those of several profiles have a column a profile; where there is nothing to show, a section has no blocks.

Section verdict_section(ProfileViews views);
Section waits_section(ProfileViews views);
Section rates_section(ProfileViews views);
/// One for each axis of the curves.
std::vector<Section> curve_sections(ProfileViews views);
Section storage_section(ProfileViews views);
Section runs_section(ProfileViews views);
Section jobs_section(ProfileViews views);
Section ranks_section(ProfileViews views);
Section timeline_section(ProfileViews views);
Section operators_section(ProfileViews views);
Section stalls_section(ProfileViews views);
Section training_section(ProfileViews views);
Section distributions_section(ProfileViews views);
Section settings_section(ProfileViews views);
Section host_section(ProfileViews views);
Section methods_section(ProfileViews views);

/// A setting's name and value as people read them; all results have the same, in the same order.
struct Setting {
  std::string key;  ///< in the record
  std::string name, text;
  std::optional<double> number;  ///< what its values are ordered by, if they are numbers
};
/// Of each result the same settings in the same order: those that any of them has; what one does not have is not given there.
std::vector<std::vector<Setting>> settings_of_all(ProfileViews views);
/// Profiles that are a sweep of two settings: what the full run of each reaches. nullopt when they differ in another number of settings, or when a
/// combination lacks or is there twice. Settings that change together (cores, workers) are one.
std::optional<SweepMap> profile_sweep(ProfileViews views);
Section sweep_section(ProfileViews views);

/// The points of a run's timeline that a report holds: all runs of all its profiles share the room.
std::vector<std::size_t> timeline_points(ProfileViews views, const RunRecord& run);

/// The rates that a profile has, with their letters and words: "prep can supply", 'P'.
struct NamedRate {
  char letter = ' ';
  std::string words;
  std::string colour;
  const std::optional<RateRecord> ProfileResult::*rate = nullptr;
};
std::span<const NamedRate> named_rates();

inline std::string count_text(std::uint64_t count) { return format_number(static_cast<double>(count)); }
inline std::string count_text(const std::optional<std::uint64_t>& count) { return count ? count_text(*count) : "not known"; }
inline std::string bytes_text(const std::optional<Bytes>& bytes) { return bytes ? format_bytes(*bytes) : "not known"; }

inline std::string seconds_text(double seconds) { return seconds > 0 ? format_seconds(seconds) : "-"; }

/// Column headings of tables that may be about several results: a label in front.
inline std::vector<Column> with_label(ProfileViews views, std::vector<Column> columns) {
  if (views.size() > 1) columns.insert(columns.begin(), Column{"result", Align::left});
  return columns;
}

inline void add_row(ProfileViews views, const ProfileView& view, Table& table, std::vector<std::string> cells) {
  if (views.size() > 1) cells.insert(cells.begin(), view.label);
  table.add(cells);
}

/// Says how many of the rows there are, where they are not all.
inline void say_shown(Table& table, std::size_t shown, std::size_t all) {
  if (shown < all) table.caption += ", " + std::to_string(shown) + " of " + count_text(all) + " (the JSON record has them all)";
}

}  // namespace dsanalyze::report
