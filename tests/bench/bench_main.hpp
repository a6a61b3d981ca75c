#pragma once

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace dsanalyze::bench {

/// What each benchmark's main() does: runs it with the words of the command line; an error is one line on stderr and exit code 1.
template <typename Run>
int run_program(int argument_count, char** arguments, const Run& run) {
  try {
    return run(std::vector<std::string>(arguments + 1, arguments + argument_count));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", std::filesystem::path(arguments[0]).filename().string(), error.what());
    return 1;
  }
}

}  // namespace dsanalyze::bench
