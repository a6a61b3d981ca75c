#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/index.hpp"

namespace dsanalyze {

/// The name of the member of a tar shard that holds the sample, as it stands in the archive; "" when the shard does not tell. Reads the shard.
std::string member_name_of(const DatasetIndex& index, const IndexRecord& record);
/// The row of an array file that the sample is; nothing when each file is a sample. Reads the file's header.
std::optional<std::uint64_t> row_of(const DatasetIndex& index, const IndexRecord& record);

}  // namespace dsanalyze
