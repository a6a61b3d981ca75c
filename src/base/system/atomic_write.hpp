#pragma once

#include <filesystem>
#include <string_view>

namespace dsanalyze {

/// Where new content is written before it gets its name. Not every filesystem has unnamed files; there, a kill in mid-write leaves a
/// file ".<name>.<random>.tmp" behind.
enum class TemporaryKind { unnamed, named };

/// write_file_atomically() of files.hpp with the first way to try.
void write_file_atomically(const std::filesystem::path& path, std::string_view content, TemporaryKind kind);

}  // namespace dsanalyze
