#pragma once

#include <memory>

#include "command.hpp"

namespace dsanalyze::cli {

/// `dsanalyze completions SHELL`.
std::unique_ptr<Command> make_completions_command();

}  // namespace dsanalyze::cli
