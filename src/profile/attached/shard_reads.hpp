#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/clock.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// Whether this is a regular file of at least 64 MiB, without holes, on the same device as `like`.
bool is_large_beside(const std::filesystem::path& file, const std::filesystem::path& like);

/// The largest such file in `folder`, not below it; nothing where there is none.
std::optional<std::filesystem::path> large_file_beside(const std::filesystem::path& folder, const std::filesystem::path& like);

/// What a device supplies to readers of shards: `readers`, and one alone, each of which reads its own part of `file` from its begin to its end, in
/// requests of 1 MiB, past the page cache. `seconds` are for both. Empty where the file cannot be read so. The file is only read, and no page of it
/// leaves the page cache.
std::vector<StoragePoint> measure_shard_reads(const std::filesystem::path& file, int readers, double seconds, const std::stop_token& stop,
                                              Timing timing);

}  // namespace dsanalyze
