#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "../../base/texts.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

// What lies behind the zeros that end a tar archive.

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::file_member;
using testing::open_error;
using testing::open_index;
using testing::says;
using testing::tar_end;

namespace {

constexpr std::size_t one_mib = std::size_t{1} << 20;
const std::string first_members = file_member("a.jpg", std::string(700, 'a')) + file_member("a.cls", "1");  // 2560 bytes
const std::string second_members = file_member("b.jpg", std::string(700, 'b')) + file_member("b.cls", "2");

std::string zero_bytes(std::size_t count) { return std::string(count, '\0'); }

struct Said {
  std::uint32_t samples = 0;
  std::string code;
  std::string finding;
  std::string damage;
};

/// What opening and verifying the shard say.
Said said_of(const DatasetFolder& folder) {
  const auto index = open_index(folder);
  Said said{index->size(), {}, {}, {}};
  for (const Finding& one : index->facts().findings) {
    if (one.code.starts_with("tar-")) {
      said.code = one.code;
      said.finding = one.message;
    }
  }
  const VerifyReport report = verify_dataset(*index, 2, null_events(), {});
  if (!report.damaged_files.empty()) said.damage = report.damaged_files.front().path + " " + report.damaged_files.front().cause;
  return said;
}
Said said_of(const DatasetFolder& folder, const std::string& shard) {
  folder.add("x.tar", shard);
  return said_of(folder);
}

}  // namespace

TEST_CASE("a MiB of zeros may end an archive, and more where they are no more than a tenth of it") {
  const DatasetFolder folder;
  for (const std::size_t padding :
       {std::size_t{0}, std::size_t{512}, std::size_t{1024}, std::size_t{10240} - first_members.size(), one_mib - 77, one_mib}) {
    CAPTURE(padding);
    const Said said = said_of(folder, first_members + zero_bytes(padding));
    CHECK(said.samples == 1);
    CHECK(said.code.empty());
    CHECK(said.damage.empty());
  }
  const std::string large = file_member("a.jpg", std::string(19 * one_mib, 'a')) + file_member("a.cls", "1");
  CHECK(said_of(folder, large + zero_bytes(2 * one_mib)).damage.empty());
  CHECK(says(said_of(folder, large + zero_bytes(3 * one_mib)).damage, "never written"));
}

TEST_CASE("a long tail of zeros may be what was never written: opening and verifying name shard, offset and size") {
  const DatasetFolder folder;
  folder.add("x.tar", first_members);
  for (const std::uint64_t size : {std::uint64_t{one_mib} + 3072, std::uint64_t{3} << 30, std::uint64_t{1} << 40}) {
    CAPTURE(size);
    std::filesystem::resize_file(folder.root() / "x.tar", size);  // a hole, which takes no time to look through
    const Said said = said_of(folder);
    CHECK(said.samples == 1);
    CHECK(said.code == "tar-zero-tail");
    for (const std::string& text : {said.finding, said.damage}) {
      CHECK(says(text, "x.tar ends at offset 2560 with zeros"));
      CHECK(says(text, "of its " + std::to_string(size) + " bytes"));
      CHECK(says(text, "may be the end of a file that was never written"));
    }
  }
}

TEST_CASE("zeros within an archive, of any length, are damage that opening and verifying name with both offsets") {
  const DatasetFolder folder;
  for (const std::size_t hole : {512 * std::size_t{1}, 127 * std::size_t{512}, 128 * std::size_t{512}, 129 * std::size_t{512}, 5 * one_mib}) {
    CAPTURE(hole);
    const Said said = said_of(folder, first_members + zero_bytes(hole) + second_members + tar_end());
    CHECK(said.samples == 1);
    CHECK(said.code == "tar-joined");
    for (const std::string& text : {said.finding, said.damage}) {
      CHECK(says(text, "x.tar ends at offset 2560 with zeros"));
      CHECK(says(text, "goes on at offset " + std::to_string(2560 + hole)));
      CHECK(says(text, "not read"));
    }
  }
}

TEST_CASE("bytes behind an archive's end that are no header are damage too") {
  const DatasetFolder folder;
  for (const std::size_t hole : {std::size_t{1024}, one_mib / 2, 5 * one_mib}) {
    CAPTURE(hole);
    const Said said = said_of(folder, first_members + zero_bytes(hole + 10) + "x" + zero_bytes(600));
    CHECK(said.code == "tar-damaged");
    for (const std::string& text : {said.finding, said.damage}) {
      CHECK(says(text, "ends at offset 2560 with zeros"));
      CHECK(says(text, "from offset " + std::to_string(2570 + hole)));
    }
  }
}

TEST_CASE("a few bytes deep behind a large archive's end are found by verifying") {
  const DatasetFolder folder;
  const std::size_t deep = 4 * one_mib + 3 * 4096;
  std::string shard = first_members + zero_bytes(8 * one_mib);
  shard[deep] = 'x';
  CHECK(says(said_of(folder, shard).damage, "from offset " + std::to_string(deep)));
}

TEST_CASE("what lies behind a hole of the file is found at once, however large the hole is") {
  const DatasetFolder folder;
  folder.add("x.tar", first_members);
  const std::uint64_t behind = std::uint64_t{1} << 40;
  const std::filesystem::path file = folder.root() / "x.tar";
  std::filesystem::resize_file(file, behind);
  std::ofstream(file, std::ios::app | std::ios::binary) << second_members << tar_end();
  const Said said = said_of(folder);
  for (const std::string& text : {said.finding, said.damage}) CHECK(says(text, "goes on at offset " + std::to_string(behind)));
}

TEST_CASE("a shard of zeros alone is damage, an empty archive is none") {
  const DatasetFolder folder;
  folder.add("good.tar", first_members + tar_end());
  for (const std::size_t size : {std::size_t{1024}, std::size_t{10240}, std::size_t{32768}, one_mib})
    CHECK(said_of(folder, zero_bytes(size)).damage.empty());
  CHECK(said_of(folder, testing::pax("13 comment=x\n", 'g') + zero_bytes(30'720)).damage.empty());
  for (const std::size_t size : {one_mib + 512, 5 * one_mib}) {
    CAPTURE(size);
    const Said said = said_of(folder, zero_bytes(size));
    CHECK(said.samples == 1);
    CHECK(said.code == "tar-without-members");
    for (const std::string& text : {said.finding, said.damage}) CHECK(says(text, "x.tar has " + std::to_string(size) + " bytes and no member"));
  }
  std::filesystem::remove(folder.root() / "good.tar");
  CHECK(says(open_error(folder), "x.tar has"));
}
