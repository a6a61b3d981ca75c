#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/records/doctor_result.hpp"
#include "core/records/gate_result.hpp"
#include "core/records/simulate_result.hpp"
#include "core/records/whatif_result.hpp"
#include "document.hpp"
#include "profile_document.hpp"
#include "report/report.hpp"
#include "sweep.hpp"

namespace dsanalyze::report {

// A document for a record of each kind but profiles; its title is the caller's to set. The first section says in a sentence what came out. Sections
// without content are left out.

Document whatif_document(const WhatIfResult& result);
Document simulate_document(const SimulateResult& result);
Document doctor_document(const DoctorResult& result);
Document gate_document(const GateResult& result);

/// The answers as a map of two factors, when there is one for every combination.
std::optional<SweepMap> whatif_sweep(const WhatIfResult& result);
/// What is reached and read over the number of servers, a line for each way of parting the dataset, storage scope and network. Empty for fewer than
/// two numbers of servers with everything else as measured.
Section whatif_servers_section(const WhatIfResult& result);
/// What is predicted of jobs that differ, by each way of sharing.
Section job_mix_section(const WhatIfJobMix& mix);
/// What the cheapest configurations cost: conclusions and the front.
Section whatif_search_section(const SearchResult& search);

/// The profiles among the results.
std::vector<ProfileView> profile_views(std::span<const ReportInput> inputs);

/// The whole report: the profiles side by side, then the other results one after another. The first document's sections keep their ids, those of the
/// others get "-2", "-3", ... behind.
Document report_document(std::span<const ReportInput> inputs);

}  // namespace dsanalyze::report
