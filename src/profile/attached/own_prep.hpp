#pragma once

#include <stop_token>

#include "attach/launch.hpp"
#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/host/host.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// How long that takes, out of a time budget; both in seconds.
double own_prep_seconds(double time_budget_seconds);

/// Whether dsanalyze.Loader could make a launched training's batches in place of its own loader: each sample is an image file of its own, a batch
/// holds squares of one size that are cropped at random or from the middle, and its workers do little besides. `result` has its reads and stages.
/// Pure.
bool own_loader_fits(const AttachedTraining& training, const ProfileResult& result);

/// Measures what dsanalyze's own prep makes of these files on all cores that may be used, from memory: ProfileResult::own_prep; nothing where
/// own_loader_fits() is false, or the files are no images. The training has ended. At most 128 MiB of them are held meanwhile. Throws Interrupted.
void measure_own_prep(const LaunchedTraining& launched, double seconds, const HostFacts& host, ProfileResult& result, EventSink& events,
                      const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
