#pragma once

#include <string>

#include "core/records/gate_result.hpp"

namespace dsanalyze::gate {

/// "P: -5.1 % (interval -6.2 to -4.0), regression: 5.1 % slower".
std::string metric_line(const GateMetric& metric);

}  // namespace dsanalyze::gate
