#include "data_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "cli/commands/command.hpp"

namespace dsanalyze::cli {
namespace {

namespace fs = std::filesystem;

bool holds_configs(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "workloads", ignored);
}

fs::path executable_folder() { return own_program().parent_path(); }

ConfigFile read(const fs::path& file) { return {file.stem().string(), file.string(), read_file(file, Bytes{1} << 20)}; }

}  // namespace

std::string config_folder(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::workload:
      return "workloads";
    case ConfigKind::server:
      return "servers";
    case ConfigKind::dataset:
      return "datasets";
    case ConfigKind::prices:
      return "prices";
    case ConfigKind::scenario:
      return "scenarios";
    case ConfigKind::storage:
      break;
  }
  return "storage";
}

fs::path config_directory() {
  if (const char* given = std::getenv("DSANALYZE_DATA_DIR"); given != nullptr && *given != '\0') {
    for (const fs::path& folder : {fs::path(given), fs::path(given) / "configs"})
      if (holds_configs(folder)) return folder;
    throw UsageError(fmt::format("DSANALYZE_DATA_DIR is \"{}\", but there is no folder workloads or configs/workloads in it", given));
  }
  fs::path beside = executable_folder().parent_path() / "share" / "dsanalyze" / "configs";  // installed, wherever that was moved to
  if (holds_configs(beside)) return beside;
  constexpr int levels = 4;
  fs::path above = executable_folder();
  for (int level = 0; level <= levels && !above.empty(); ++level) {
    if (holds_configs(above / "configs")) return above / "configs";
    if (above == above.parent_path()) break;
    above = above.parent_path();
  }
  fs::path installed = fs::path(DSANALYZE_INSTALLED_DATA_DIR) / "configs";
  if (holds_configs(installed)) return installed;
  throw Error(
      fmt::format("the program's data (configs/workloads, ...) was not found: neither above {} nor in {}; set DSANALYZE_DATA_DIR to the folder "
                  "that holds it",
                  executable_folder().string(), installed.string()));
}

fs::path hook_directory() {
  const fs::path folder = config_directory().parent_path() / "python" / "dsanalyze" / "_attach" / "site";
  std::error_code ignored;
  if (fs::exists(folder / "sitecustomize.py", ignored)) return fs::absolute(folder);
  throw Error(fmt::format("the program's hook for Python was not found in {}; set DSANALYZE_DATA_DIR to the folder that holds configs/ and python/",
                          folder.string()));
}

std::vector<ConfigFile> config_files(ConfigKind kind) {
  const fs::path folder = config_directory() / config_folder(kind);
  std::vector<ConfigFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") files.push_back(read(entry.path()));
  if (error) throw Error(fmt::format("cannot list {}: {}", folder.string(), error.message()));
  std::ranges::sort(files, {}, &ConfigFile::name);
  return files;
}

ConfigFile config_file(ConfigKind kind, const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) return read(name_or_path);
  std::vector<std::string> names;
  for (ConfigFile& file : config_files(kind)) {
    if (file.name == name_or_path) return std::move(file);
    names.push_back(file.name);
  }
  throw UsageError(fmt::format("\"{}\" is not among the known {}{}; known are {}", name_or_path, config_folder(kind),
                               did_you_mean(name_or_path, names), fmt::join(names, ", ")));
}

std::filesystem::path own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

}  // namespace dsanalyze::cli
