#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profile_document.hpp"

namespace dsanalyze::report {

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

}  // namespace dsanalyze::report
