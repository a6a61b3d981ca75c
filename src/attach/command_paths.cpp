#include "command_paths.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr Bytes most_hashed = Bytes{64} << 20;
constexpr Bytes most_code = Bytes{4} << 20;
constexpr std::size_t most_entries = 10'000;

std::string hex_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("xxh3:{:016x}{:016x}", hash.high64, hash.low64);
}

bool named_as_code(const fs::path& path) {
  static const std::array<std::string_view, 9> code{".py", ".pyz", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"};
  return std::ranges::find(code, path.extension().native()) != code.end();
}

/// Of what lies below, folder after folder, what is near the top first.
std::string folder_digest(const fs::path& folder) {
  std::vector<std::string> names;
  std::vector<std::string> folders{""};
  for (std::size_t next = 0; next < folders.size() && names.size() < most_entries; ++next) {
    const std::string inner = folders[next];
    std::error_code error;
    for (fs::directory_iterator at(folder / inner, error), end; !error && at != end && names.size() < most_entries; at.increment(error)) {
      const std::string name = inner + at->path().filename().native();
      std::error_code ignored;
      const bool file = at->is_regular_file(ignored);
      names.push_back(file ? fmt::format("{}\t{}\t{}", name, at->file_size(ignored), at->last_write_time(ignored).time_since_epoch().count()) : name);
      if (at->is_directory(ignored) && !at->is_symlink(ignored)) folders.push_back(name + "/");
    }
  }
  std::ranges::sort(names);
  return hex_of(fmt::format("{}", fmt::join(names, "\n")));
}

}  // namespace

std::optional<CommandPathRecord> path_record(const fs::path& path, CommandPathRecord::Kind kind) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return std::nullopt;
  try {
    if (fs::is_directory(status)) return CommandPathRecord{path.native(), CommandPathRecord::Kind::data, folder_digest(path)};
    if (!fs::is_regular_file(status)) return std::nullopt;
    const Bytes size = fs::file_size(path);
    if (size <= most_hashed) return CommandPathRecord{path.native(), kind, hex_of(read_file(path, most_hashed))};
    return CommandPathRecord{path.native(), CommandPathRecord::Kind::data,
                             fmt::format("size {} time {}", size, fs::last_write_time(path).time_since_epoch().count())};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::vector<CommandPathRecord> command_paths(const std::vector<std::string>& words, const fs::path& folder) {
  std::vector<CommandPathRecord> paths;
  const auto add = [&](const std::string& text) {
    if (text.empty()) return false;
    const fs::path path = (folder / text).lexically_normal();
    std::error_code error;
    const Bytes size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : most_code + 1;
    const auto record = path_record(path, named_as_code(path) && size <= most_code ? CommandPathRecord::Kind::code : CommandPathRecord::Kind::data);
    if (record && std::ranges::find(paths, record->path, &CommandPathRecord::path) == paths.end()) paths.push_back(*record);
    return record.has_value();
  };
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    const std::size_t equals = word.find('=');
    if (!add(word) && word.starts_with('-') && equals != std::string::npos) add(word.substr(equals + 1));
  }
  return paths;
}

}  // namespace dsanalyze
