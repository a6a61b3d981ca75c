#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/records/settings.hpp"

namespace dsanalyze {

/// One rule of what goes together: the only place; the check, the help page and the tests read it.
struct ModeRule {
  std::string_view mode;          ///< "--cache page"
  std::string_view refused_with;  ///< "--direct"
  std::string_view reason;        ///< and what to use instead
  bool (*applies)(const ProfileSettings& settings);
};
std::span<const ModeRule> mode_rules();
/// The first rule that the settings break.
std::optional<ModeRule> broken_mode_rule(const ProfileSettings& settings);

}  // namespace dsanalyze
