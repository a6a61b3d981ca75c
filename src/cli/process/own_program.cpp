#include "own_program.hpp"

#include <system_error>

namespace dsanalyze::cli {

std::filesystem::path own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

}  // namespace dsanalyze::cli
