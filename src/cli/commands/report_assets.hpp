#pragma once

#include "report/report.hpp"

namespace dsanalyze::cli {

/// reports/html and Chart.js, as they were when the program was built.
HtmlAssets report_assets();

}  // namespace dsanalyze::cli
