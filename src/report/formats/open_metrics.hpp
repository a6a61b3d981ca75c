#pragma once

#include <string>

#include "core/records/result.hpp"

namespace dsanalyze {

/// The profile as OpenMetrics 1.0 text, which Prometheus scrapes and whose lines node_exporter's textfile collector reads too (gauges and summaries
/// alone, no timestamps). Every sample carries the label `dataset`. Base units (seconds, bytes, ratios) in the names. What is not known has no line.
/// Names from outside are made printable and quoted. Ends with "# EOF". Threads: any.
std::string open_metrics(const ProfileResult& result);

}  // namespace dsanalyze
