#pragma once

#include <string_view>
#include <vector>

#include "attach/launch.hpp"
#include "attach/reads/access_trace.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// Whether a file that is read while a training runs is data: not a library, not a part of Python or of the system, no weights of a model.
bool is_data(std::string_view path);
/// Time in which the full run was measured: apart, in order.
struct TimeSpan {
  Nanoseconds begin = 0, end = 0;
};
/// `spans` are apart and in order.
bool is_within(const std::vector<TimeSpan>& spans, Nanoseconds time);
std::vector<TimeSpan> full_windows(const AttachedTraining& training);
/// Of what was traced in the full run, the files of the dataset: ProfileResult::reads, and findings on what the tracer did not see. `result` has its
/// runs.
void take_reads(const LaunchedTraining& launched, ProfileResult& result);

}  // namespace dsanalyze
