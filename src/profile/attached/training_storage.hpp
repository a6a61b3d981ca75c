#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "attach/launch.hpp"
#include "attached_reads.hpp"
#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/text/units.hpp"
#include "core/index.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// What was read of the dataset's files within the spans of time, as ranges in the order in which they were first read, each once: calls of one
/// opening that follow one another in the file are one range, of a MiB at most. At most `most_bytes` together. The index's root is "/", and its files
/// are where they lie outside of `sandbox` (nullptr: there was none). Pure without one.
std::shared_ptr<const DatasetIndex> read_ranges(const AccessTrace& trace, const std::vector<TimeSpan>& spans, Bytes most_bytes,
                                                const Sandbox* sandbox = nullptr);

/// What an epoch of all ranks reads: its samples by the bytes of one, and no more than the files hold where all of them were seen. Absent where the
/// loader has no length, and no epoch was seen to end. `result` has the run full and its reads. Pure.
std::optional<Bytes> epoch_bytes(const LaunchedTraining& launched, const ProfileResult& result);

/// What is read into the page cache for C, at most.
constexpr Bytes most_warm_bytes = Bytes{256} << 20;

/// How long a launched training's storage is measured, out of a time budget; both in seconds.
double storage_seconds(double time_budget_seconds);

/// Measures storage by what a launched training has read: the ranges are read again, cold, with as many reads in flight as the job has workers (S),
/// with fewer and more (the curve), and then from memory (C). The training has ended. Adds to `result`, which has its runs and reads: storage, cache,
/// storage_by_request, the run "fetch" with its proof, what an epoch reads and what memory there is for it; or the finding storage-not-separable,
/// where the ranges are not known well enough. The pages of these ranges leave the page cache, and those of C come back. Throws Interrupted.
void measure_training_storage(const LaunchedTraining& launched, double seconds, const HostFacts& host, ProfileResult& result, EventSink& events,
                              const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
