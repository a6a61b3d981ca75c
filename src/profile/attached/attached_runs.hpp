#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/process/process_tree.hpp"
#include "base/statistics.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

RateRecord rate_record(const std::vector<Stretch>& stretches, const std::string& method);
void take_rate(const RateRecord& rate, RunRecord& run);
/// What the processes of the training used between two looks; nothing where one of them is missing.
void take_use(const std::optional<TreeUse>& before, const std::optional<TreeUse>& after, RunRecord& run);
/// Whether more than a few pages, and more than this fraction of what the run read, came from storage, and the run waited for it: a few pages are a
/// large part of what a training reads that reads next to nothing, and cost it no time.
bool read_storage(const RunRecord& run, double least_fraction);

}  // namespace dsanalyze
