#pragma once

#include <filesystem>

#include "attach/launch.hpp"
#include "base/host/host.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// The record of a launched training: rates, runs, waits, stalls, the bottleneck and the findings. Pure. Throws Error when nothing was measured.
ProfileResult attached_profile(const LaunchedTraining& launched, const LaunchSettings& settings, const HostFacts& host);

/// Writes what a launched training read of its data in the run full as an access trace (core/trace/access_trace.hpp), for caches to be simulated on.
/// An item is a file that is read whole, or a block of 256 KiB of a larger one; the recorded cache held nothing. Where the training read nothing that
/// was traced, or the file cannot be written, the result gets a finding that says so, and there is no file.
void write_item_trace(const LaunchedTraining& launched, const std::filesystem::path& path, ProfileResult& result);

}  // namespace dsanalyze
