#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/system/files.hpp"
#include "fuzz.hpp"

/// Runs every file of the given folders through a harness once, without a fuzzer. Names each file first, so that a crash names its input.
int main(int count, char** arguments) {
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
      if (entry.is_regular_file()) inputs.push_back(entry.path());
    }
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 1;
  }
  std::sort(inputs.begin(), inputs.end());
  for (const auto& input : inputs) {
    std::printf("%s\n", input.c_str());
    std::fflush(stdout);
    const std::string content = dsanalyze::read_file(input);
    const std::vector<std::uint8_t> bytes(content.begin(), content.end());  // without a byte behind, so that a sanitizer sees what reads there
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs\n", inputs.size());
  return 0;
}
