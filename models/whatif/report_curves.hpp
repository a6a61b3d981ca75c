#pragma once

#include "core/records/report_curves.hpp"
#include "whatif.hpp"

namespace dsanalyze {

/// answer() along three factors, each alone: the share of the dataset in the cache from 0 to 1, the cores of prep from one to twice those that are
/// there or would be enough, and the accelerators' speed from a quarter to four times. Where the model lacks the base of a factor (the number of
/// cores, G), that curve is left out. The points where the set-up stands and where the factor crosses are among the points. Pure.
ReportCurves report_curves(const RateModel& model);

}  // namespace dsanalyze
