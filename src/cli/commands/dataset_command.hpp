#pragma once

#include <memory>

#include "command.hpp"

namespace dsanalyze::cli {

std::unique_ptr<Command> make_dataset_command();

}  // namespace dsanalyze::cli
