#include "hook_signs.hpp"

#include <fmt/format.h>

#include <system_error>

#include "base/system/files.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {

bool imports_with_hook(const std::filesystem::path& folder, int process) {
  std::error_code ignored;
  return std::filesystem::exists(folder / fmt::format("torch-{}", process), ignored);
}

std::vector<std::pair<std::string, std::string>> faults_of_hooks(const std::filesystem::path& folder) {
  constexpr std::string_view kind = "fault-";
  constexpr std::size_t most_bytes = 4096;
  std::vector<std::pair<std::string, std::string>> left;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().native();
    if (!name.starts_with(kind)) continue;
    if (std::string text = read_file(each->path(), most_bytes); !text.empty())  // Else it is just being written.
      left.emplace_back(name.substr(kind.size()), printable(text));
  }
  return left;
}

std::string unheard_text(const TreeProcess& process) {
  return fmt::format(
      "process {} ({}) uses PyTorch without having loaded dsanalyze's hook: it was started with python -I, -E or -S, as another user, or with an "
      "environment of its own. Start it without these, or with PYTHONPATH and the DSANALYZE_ variables handed on",
      process.pid, printable(process.command));
}

}  // namespace dsanalyze
