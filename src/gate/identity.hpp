#pragma once

#include <map>
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

}  // namespace dsanalyze::gate
