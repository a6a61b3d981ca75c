#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/system/files.hpp"
#include "base/text/enum_names.hpp"
#include "core/workload.hpp"

namespace dsanalyze::cli {

/// What comes with the program as data.
enum class ConfigKind { workload, server, dataset, storage, prices, scenario };
/// The folders under configs/.
constexpr std::array<const char*, 6> names_of(ConfigKind /*type*/) { return {"workloads", "servers", "datasets", "storage", "prices", "scenarios"}; }

/// The folder that holds workloads/, servers/, ...: $DSANALYZE_DATA_DIR (that folder, or the one above with configs/ in it), else
/// ../share/dsanalyze/configs as seen from the program (installed or unpacked), else configs/ at most
/// four levels above the program (a build tree), else where the program was installed. Throws Error naming the places looked at.
std::filesystem::path config_directory();

/// The folder that goes first on PYTHONPATH of a training that is launched; beside the folder of configs. Throws Error.
std::filesystem::path hook_directory();

/// What --accelerator pytorch runs; beside that folder. Throws Error.
std::filesystem::path pytorch_rate_script();

/// The library that traces what a launched training reads; beside the program in a build tree, else in the installation's folder of libraries. Empty
/// where there is none, on an architecture that it does not know.
std::filesystem::path tracer_library();

/// What runs on GPUs, compiled; in the same places. Throws UsageError where this program was built without nvcc.
std::filesystem::path gpu_kernels();

struct ConfigFile {
  std::string name;    ///< without ".json"
  std::string source;  ///< path, for messages
  std::string text;
};
/// All of a kind, by name.
std::vector<ConfigFile> config_files(ConfigKind kind);
/// By name, or by path when it holds a '/' or ends in ".json". Throws UsageError that suggests the nearest name.
ConfigFile config_file(ConfigKind kind, const std::string& name_or_path);

/// Where this program lies, links resolved; empty where the system does not say.
std::filesystem::path own_program();

/// Where libdsanalyze may lie for the program at this path: beside it where both were built, and where both are installed, wherever that was moved
/// to.
std::vector<std::filesystem::path> client_library_places(const std::filesystem::path& program);
/// The first place that has it.
std::optional<std::filesystem::path> find_client_library(std::span<const std::filesystem::path> places);

/// "NAME=value" each: what a program needs in its environment to load the library: DSANALYZE_LIBRARY, its path, and LD_LIBRARY_PATH with its folder,
/// unless the loader looks there anyway. What the environment says already stays: a DSANALYZE_LIBRARY as it is, and the folders that it names come
/// first.
std::vector<std::string> library_environment(const std::filesystem::path& library,
                                             const std::function<std::optional<std::string>(const std::string& name)>& environment);

/// A folder with a name that no other user can guess, in the user's runtime folder ($XDG_RUNTIME_DIR) or /tmp, that no other user may enter.
class PrivateFolder {
 public:
  /// Throws Error.
  PrivateFolder();
  /// Removes it, and what is in it.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  std::filesystem::path m_path;
  std::optional<NamedPlace> m_named;
};

}  // namespace dsanalyze::cli
