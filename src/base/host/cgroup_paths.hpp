#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/text/units.hpp"

namespace dsanalyze {

/// The group that this process is in, of one controller.
struct OwnControlGroup {
  int version = 0;
  std::filesystem::path folder;
};
std::optional<OwnControlGroup> own_control_group(const std::string& controller, const std::filesystem::path& root);

/// The value of `name` in a file of lines "name value"; 0 when it is not there.
Bytes cgroup_statistic(const std::filesystem::path& file, const std::string& name);

}  // namespace dsanalyze
