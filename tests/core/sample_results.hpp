#pragma once

#include "dsanalyze/core/doctor_result.hpp"
#include "dsanalyze/core/gate_result.hpp"
#include "dsanalyze/core/result.hpp"
#include "dsanalyze/core/share_result.hpp"
#include "dsanalyze/core/simulate_result.hpp"
#include "dsanalyze/core/whatif_result.hpp"

namespace dsanalyze::test {

/// Results with every field set to a value of its own, and the least that each result may hold.
ProfileResult full_profile();
ProfileResult least_profile();
std::vector<RankRecord> full_ranks();
PartitionRecord full_partition();
SearchResult full_search();
WhatIfResult full_whatif();
DatasetCommandResult full_dataset_result();
SimulateResult full_simulation();
DoctorResult full_examination();
GateResult full_gate();
ShareResult full_share();

}  // namespace dsanalyze::test
