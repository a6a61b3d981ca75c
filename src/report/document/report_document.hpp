#pragma once

#include <span>
#include <vector>

#include "document.hpp"
#include "profile_document.hpp"
#include "report/report.hpp"

namespace dsanalyze::report {

/// The profiles among the results.
std::vector<ProfileView> profile_views(std::span<const ReportInput> inputs);

/// The whole report: the profiles side by side, then the other results one after another. The first document's sections keep their ids, those of the
/// others get "-2", "-3", ... behind.
Document report_document(std::span<const ReportInput> inputs);

}  // namespace dsanalyze::report
