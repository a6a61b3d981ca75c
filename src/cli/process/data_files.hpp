#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/workload.hpp"

namespace dsanalyze::cli {

/// What comes with the program as data.
enum class ConfigKind { workload, server, dataset, storage, prices, scenario };
/// "workloads", ...: the folder under configs/.
std::string config_folder(ConfigKind kind);

/// The folder that holds workloads/, servers/, ...: $DSANALYZE_DATA_DIR (that folder, or the one above with configs/ in it), else
/// ../share/dsanalyze/configs as seen from the program (installed or unpacked), else configs/ at most
/// four levels above the program (a build tree), else where the program was installed. Throws Error naming the places looked at.
std::filesystem::path config_directory();

/// The folder that goes first on PYTHONPATH of a training that is launched; beside the folder of configs. Throws Error.
std::filesystem::path hook_directory();

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

}  // namespace dsanalyze::cli
