#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "file_window.hpp"
#include "tar_shard.hpp"

namespace dsanalyze {

/// Where a byte lies behind the archive's end at `end` that is not zero; nothing where none was found. Archives may be followed by any number of
/// zeros. BehindEnd::all finds the first such byte; holes of the file are not read. Throws Error naming path and cause, Interrupted on a stop.
std::optional<std::uint64_t> find_nonzero_behind(FileWindow& window, std::uint64_t end, BehindEnd behind_end, const std::stop_token& stop);

}  // namespace dsanalyze
