#include "client_library.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* library_name = "libdsanalyze.so.0";
constexpr const char* library_variable = "DSANALYZE_LIBRARY";
constexpr const char* search_variable = "LD_LIBRARY_PATH";

/// The dynamic loader looks there without being told to.
bool is_searched(const fs::path& folder) {
  constexpr std::array<std::string_view, 4> always{"/lib", "/usr/lib", "/lib64", "/usr/lib64"};
  return std::ranges::any_of(always, [&](std::string_view each) { return folder == each || folder.parent_path() == each; });
}

bool names(std::string_view folders, std::string_view folder) {
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (folders.substr(begin, end - begin) == folder) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::vector<fs::path> client_library_places(const fs::path& program) {
  const fs::path folder = program.parent_path();
  return {folder / "src/client" / library_name, folder.parent_path() / DSANALYZE_LIBRARY_FOLDER / library_name};
}

std::optional<fs::path> find_client_library(std::span<const fs::path> places) {
  const auto found = std::ranges::find_if(places, [](const fs::path& place) {
    std::error_code ignored;
    return fs::exists(place, ignored);
  });
  return found == places.end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> library_environment(const fs::path& library,
                                             const std::function<std::optional<std::string>(const std::string& name)>& environment) {
  std::vector<std::string> added;
  if (environment(library_variable).value_or("").empty()) added.push_back(std::string(library_variable) + "=" + library.string());
  const std::string folder = library.parent_path().string();
  const std::string folders = environment(search_variable).value_or("");
  // A colon cannot be written in a list of folders.
  if (is_searched(folder) || names(folders, folder) || folder.find(':') != std::string::npos) return added;
  added.push_back(std::string(search_variable) + "=" + (folders.empty() ? folder : folders + ":" + folder));
  return added;
}

}  // namespace dsanalyze::cli
