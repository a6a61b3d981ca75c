#pragma once
// What the hook leaves in the folder of a launched command, and what its absence means.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/process/process_tree.hpp"

namespace dsanalyze {

/// The hook leaves a file when the import of PyTorch begins, and speaks when the loader's module has been imported, which may be minutes later.
bool imports_with_hook(const std::filesystem::path& folder, int process);

/// Why the hook cannot work in processes of the command, by PID, made printable; up to 4 KiB of each.
std::vector<std::pair<std::string, std::string>> faults_of_hooks(const std::filesystem::path& folder);

/// That a process uses PyTorch without the hook, why, and what to do.
std::string unheard_text(const TreeProcess& process);

}  // namespace dsanalyze
