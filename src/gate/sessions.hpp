#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gate.hpp"

namespace dsanalyze::gate {

constexpr std::int64_t session_gap_seconds = 3600;

/// Seconds since 1970 of "2026-11-20T21:05:33Z"; nothing for any other text.
std::optional<std::int64_t> utc_seconds(const std::string& text);

/// Which session each run belongs to: runs that began within an hour of the one before are one session.
struct Sessions {
  std::vector<std::size_t> baseline, current;  ///< a session's number for each run
  std::size_t count = 0;
  bool times_known = true;           ///< else all runs of a side are taken for one session, and the sides' for different ones
  bool one_after_the_other = false;  ///< in most sessions that both sides share, every run of the same side began before every run of the other
};
Sessions sessions_of(std::span<const GateRun> baseline, std::span<const GateRun> current);

/// The *.json files of a folder by name, hidden ones apart; not read. Throws UsageError when the folder cannot be read.
std::vector<std::filesystem::path> records_in(const std::filesystem::path& folder);

}  // namespace dsanalyze::gate
