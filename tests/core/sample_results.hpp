#pragma once

#include "core/records/doctor_result.hpp"
#include "core/records/gate_result.hpp"
#include "core/records/result.hpp"
#include "core/records/share_result.hpp"
#include "core/records/simulate_result.hpp"
#include "core/records/whatif_result.hpp"

namespace dsanalyze::test {

/// Results with every field set to a value of its own, and the least that each result may hold.
ProfileResult full_profile();
/// As full_profile(), of jobs that drew dependently.
ProfileResult dependent_profile();
ProfileResult least_profile();
std::vector<RankRecord> full_ranks();
PartitionRecord full_partition();
SearchResult full_search();
WhatIfJobMix full_job_mix();
WhatIfResult full_whatif();
DatasetCommandResult full_dataset_result();
SimulateResult full_simulation();
SimulateResult simulated_draws();
DoctorResult full_examination();
GateResult full_gate();
ShareResult full_share();

}  // namespace dsanalyze::test
