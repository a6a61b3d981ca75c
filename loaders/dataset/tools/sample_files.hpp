#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "base/text/units.hpp"
#include "dataset_make.hpp"

namespace dsanalyze {

/// Puts the bytes under the path, whole or not at all. Returns 0 or the errno of what failed; nothing is left then. Threads: any.
using WriteSample = std::function<int(const std::filesystem::path&, std::span<const std::byte>)>;

/// Written to an unnamed file and linked in, so that a kill leaves nothing; on filesystems without unnamed files to a hidden temporary name and
/// renamed. Not synced: a made file can be made again, and a sync a file would cost more than making it.
int write_sample(const std::filesystem::path& path, std::span<const std::byte> bytes);
/// The second way alone.
int write_sample_by_rename(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Removes temporary files that a killed writer left anywhere below `folder`, those of writers that live excepted.
void remove_left_over_files(const std::filesystem::path& folder);

/// The size of a sample that is there whole (it begins and ends as a JPEG does); nothing when it is not there or was cut off by a power failure.
std::optional<Bytes> whole_sample_bytes(const std::filesystem::path& path);

// What the commands that read every sample of a dataset have in common.

constexpr std::size_t piece_samples = 32;    ///< that a thread takes at a time
constexpr std::size_t failures_named = 100;  ///< of all that failed

/// make_dataset() with a writer of its own: a test's full disk.
MakeReport make_dataset_with(const std::filesystem::path& folder, const MakeOptions& options, const WriteSample& write, EventSink& events,
                             const std::stop_token& stop);

}  // namespace dsanalyze
