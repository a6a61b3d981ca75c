#pragma once

#include <memory>

#include "command.hpp"

namespace dsanalyze::cli {

std::unique_ptr<Command> make_profile_command();

}  // namespace dsanalyze::cli
