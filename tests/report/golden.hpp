#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace dsanalyze::testing {

/// Compares with the file of tests/golden; DSANALYZE_TEST_ACCEPT=1 writes the file instead.
inline void check_golden_file(const std::string& name, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(DSANALYZE_GOLDEN_DIR) / name;
  if (const char* accept = std::getenv("DSANALYZE_TEST_ACCEPT"); accept != nullptr && std::string(accept) == "1") std::ofstream(file) << text;
  std::ifstream stream(file);
  REQUIRE_MESSAGE(stream.good(), "no golden file ", file.string(), ": write it with DSANALYZE_TEST_ACCEPT=1");
  std::ostringstream expected;
  expected << stream.rdbuf();
  CHECK(text == expected.str());
}

/// The same with NAME.txt.
inline void check_golden(const std::string& name, const std::string& text) { check_golden_file(name + ".txt", text); }

}  // namespace dsanalyze::testing
