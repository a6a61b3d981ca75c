#pragma once

#include <string>

#include "cli/commands/command.hpp"

namespace dsanalyze::cli {

/// The common options as typed.
struct CommonTexts {
  std::string colour = "auto";
  std::string output;
  std::string seed;
};

inline constexpr std::string_view colour_choices = "auto|always|never";

/// Adds them to a command's parser, bound to `options` and `texts`, after the command's own.
void declare_common(CLI::App& app, CommonOptions& options, CommonTexts& texts);

}  // namespace dsanalyze::cli
