// Prints the live model of a profile, for the browser's tests of the equations. Argument: the profile's path.

#include <cstdio>
#include <string>

#include "dsanalyze/base/files.hpp"
#include "live_models.hpp"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::string path = arguments[1];
  std::puts(dsanalyze::cli::live_model_json(dsanalyze::profile_from_json(dsanalyze::read_file(path), path), path).c_str());
  return 0;
}
