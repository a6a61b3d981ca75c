#pragma once

#include <filesystem>
#include <string_view>

#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {

enum class Links { followed, refused };
enum class Owners { this_user, this_user_or_root };

/// A regular file without access for its group and others, open for reading. Not valid when there is none. Throws UsageError: what is wrong with it,
/// then `remedy`; Error when the system refuses. `what` names its purpose: "the key file".
FileDescriptor open_private_file(const std::filesystem::path& path, Links links, Owners owners, std::string_view what, std::string_view remedy);

/// What is in it when it is called; no more than `limit` bytes are read. Throws Error.
SecretText read_open_file(const FileDescriptor& file, const std::filesystem::path& path, Bytes limit);

/// Makes the file (mode 0600) and writes it in place; false when the name is taken. Throws Error, and leaves nothing then.
bool create_private_file(const std::filesystem::path& path, std::string_view content);

/// Puts a new file (mode 0600) in the place of what has that name, by way of PATH.new. Throws Error, and leaves what was there then.
void replace_private_file(const std::filesystem::path& path, std::string_view content);

}  // namespace dsanalyze
