#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/records/attached_record.hpp"

namespace dsanalyze {

/// The files and folders that a command's words name ("PATH", "--option=PATH", relative to `folder`), as they are now. Small files with a script's or
/// a configuration's name are code; all others are data. The program itself is none of them: it may be updated. What cannot be read is left out.
std::vector<CommandPathRecord> command_paths(const std::vector<std::string>& words, const std::filesystem::path& folder);
/// One path as it is now; nothing where there is none. Of files up to 64 MiB the digest is of their contents, of larger ones of size and time, of a
/// folder of the names of up to 10,000 entries in it and in its folders.
std::optional<CommandPathRecord> path_record(const std::filesystem::path& path, CommandPathRecord::Kind kind);

}  // namespace dsanalyze
