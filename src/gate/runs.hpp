#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gate.hpp"

namespace dsanalyze::gate {

/// What two results must have in common to be compared, as field -> value in words, in the order of the fields' names: machine ("host.cpu_model"),
/// dataset ("dataset.digest"), and every setting ("settings.workers") but those of how long and where was measured.
using Identity = std::map<std::string, std::string>;
Identity identity_of(const ProfileResult& profile);

/// Throws UsageError for names in options.ignore that are no field and no group of fields, with the nearest name.
void require_known_fields(const Identity& identity, const std::vector<std::string>& ignore);

/// Compares every run with the first of the baseline, and its "dataset.content_sample_digest" with that of the first run whose samples were drawn
/// alike. Throws UsageError with all differing fields; returns those that options let pass, each once.
std::vector<GateDifference> require_comparable(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options);

/// What was chosen by measuring and may differ between equal runs (settings.io, settings.read_mode): named as a finding.
void find_chosen_differently(std::span<const GateRun> baseline, std::span<const GateRun> current, std::vector<Finding>& findings);

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
