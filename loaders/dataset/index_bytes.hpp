#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/index.hpp"

namespace dsanalyze {

/// The index whose file has these bytes; the tables stay where they lie, and `owner` keeps them. Throws Error with the cause alone: not an index,
/// other version, cut off, damaged, offsets out of bounds, paths that lead out of the root, an address that is no multiple of 8.
std::shared_ptr<const DatasetIndex> parse_index_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
/// The bytes of the index's file.
std::string make_index_bytes(const DatasetIndex& index);

}  // namespace dsanalyze
