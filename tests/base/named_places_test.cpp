#include "base/system/files.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

using namespace dsanalyze;

TEST_CASE("named places are removed with what is in them, those that are let go of stay") {
  std::string folder = (std::filesystem::temp_directory_path() / "dsa-places-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::filesystem::path kept = std::filesystem::path(folder) / "kept";
  const std::filesystem::path gone = std::filesystem::path(folder) / "gone";
  for (const auto& place : {kept, gone}) {
    std::filesystem::create_directory(place);
    std::ofstream(place / "file") << "text";
  }
  { const NamedPlace let_go(kept); }
  const NamedPlace named(gone);
  remove_named_places();
  CHECK(std::filesystem::exists(kept / "file"));
  CHECK_FALSE(std::filesystem::exists(gone));
  std::filesystem::remove_all(folder);
}
