#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "../../base/texts.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "npy_files.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

// What an index depends on: each reader declares it, and an index is used only while all of it holds.

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::file_member;
using testing::npy_array;
using testing::open_index;
using testing::says;
using testing::tar_end;

namespace {

namespace fs = std::filesystem;

/// New content in the same file: its folder does not change.
void overwrite(const fs::path& file, const std::string& content) { std::ofstream(file, std::ios::binary | std::ios::in | std::ios::out) << content; }

void keep_index(const fs::path& path) { write_index_file(*open_index(path), default_index_file(path)); }

std::string two_samples(char content, char label) {
  return file_member("a.jpg", {content}) + file_member("a.cls", {label}) + file_member("b.jpg", {content}) + file_member("b.cls", "0") + tar_end();
}

}  // namespace

TEST_CASE("a kept index is not used for arrays that were overwritten in place") {
  const DatasetFolder folder;
  folder.add("a/1.npy", npy_array("<f4", {4}, std::string(16, '1')));
  folder.add("a/2.npy", npy_array("<f4", {4}, std::string(16, '2')));
  keep_index(folder.root());
  CHECK(open_index(folder)->facts().array->dtype == "<f4");
  for (const char* name : {"a/1.npy", "a/2.npy"}) overwrite(folder.root() / name, npy_array("<f8", {2}, std::string(16, '3')));
  CHECK(open_index(folder)->facts().array->dtype == "<f8");
}

TEST_CASE("one array of many that was overwritten in place is enough to read all headers anew") {
  const DatasetFolder folder;
  for (int number = 0; number < 40; ++number) folder.add(std::to_string(number) + ".npy", npy_array("|u1", {4}, "1234"));
  keep_index(folder.root());
  overwrite(folder.root() / "17.npy", npy_array("|u1", {2, 2}, "1234"));
  CHECK(says(testing::open_error(folder), "17.npy is 2x2 of |u1"));
}

TEST_CASE("a kept index is not used for a file that another of the same size and time replaced") {
  const DatasetFolder folder;
  const fs::path path = folder.root() / "x.tar";
  folder.add("x.tar", two_samples('a', '1'));
  keep_index(path);
  folder.write("other.tar", two_samples('b', '2'));
  fs::last_write_time(folder.path() / "other.tar", fs::last_write_time(path));
  fs::rename(folder.path() / "other.tar", path);
  CHECK((*open_index(path))[0].label == 2);
}

TEST_CASE("a kept index is not used for files that were overwritten in place and whose time was set back") {
  const DatasetFolder folder;
  folder.add("1.npy", npy_array("<f4", {4}, std::string(16, '1')));
  folder.add("x.tar", two_samples('a', '1'));
  const fs::path range = folder.root() / "{1..1}.npy";
  const fs::path shard = folder.root() / "x.tar";
  keep_index(range);
  keep_index(shard);
  const auto overwrite_secretly = [](const fs::path& file, const std::string& content) {
    const auto time = fs::last_write_time(file);
    overwrite(file, content);
    fs::last_write_time(file, time);
  };
  overwrite_secretly(folder.root() / "1.npy", npy_array("<f8", {2}, std::string(16, '3')));
  CHECK(open_index(range)->facts().array->dtype == "<f8");
  overwrite_secretly(shard, two_samples('b', '2'));
  CHECK((*open_index(shard))[0].label == 2);
}

TEST_CASE("a file that was added to a folder whose time was set back is found") {
  const DatasetFolder folder;
  folder.add("a/1.jpg", "1");
  keep_index(folder.root());
  const auto time = fs::last_write_time(folder.root() / "a");
  folder.add("a/2.jpg", "2");
  fs::last_write_time(folder.root() / "a", time);
  CHECK(open_index(folder)->size() == 2);
}

TEST_CASE("labels that are added to a named array, or to a range of shards, after its index was kept are read") {
  const DatasetFolder folder;
  folder.add("x.npy", npy_array("|u1", {2}, "ab"));
  folder.add("s-0.tar", two_samples('a', '1'));
  const fs::path rows = folder.root() / "x.npy";
  const fs::path range = folder.root() / "s-{0..0}.tar";
  keep_index(rows);
  keep_index(range);
  folder.add("x.labels.npy", npy_array("|u1", {2}, std::string("\2\1", 2)));
  CHECK((*open_index(rows))[0].label == 2);
  keep_index(rows);
  folder.add("x.labels.txt", "ant\nbee\ncat\n");
  CHECK(open_index(rows)->labels() == std::vector<std::string>{"ant", "bee", "cat"});
  folder.add("labels.txt", "ant\nbee\n");
  CHECK(open_index(range)->labels() == std::vector<std::string>{"ant", "bee"});
}

TEST_CASE("labels that are taken away after the index was kept are not used any more") {
  const DatasetFolder folder;
  folder.add("x.npy", npy_array("|u1", {2}, "ab"));
  folder.add("x.labels.npy", npy_array("|u1", {2}, std::string("\2\1", 2)));
  keep_index(folder.root() / "x.npy");
  fs::remove(folder.root() / "x.labels.npy");
  CHECK((*open_index(folder.root() / "x.npy"))[0].label == 0);
}

TEST_CASE("an index file that the user names is refused once files that it looks into changed, and verify names what changed since") {
  const DatasetFolder folder;
  folder.add("x.tar", two_samples('a', '1'));
  folder.add("1.npy", npy_array("|u1", {2}, "ab"));
  for (const fs::path& path : {folder.root() / "x.tar", folder.root() / "{1..1}.npy"}) {
    OpenOptions options;
    options.index_file = folder.path() / "mine.dsidx";
    const auto index = open_index(path);
    write_index_file(*index, *options.index_file);
    CHECK(open_index(path, options)->size() == index->size());
    CHECK(verify_dataset(*index, 1, null_events(), {}).damaged_files.empty());
    const fs::path file = folder.root() / std::string(index->file_path(0));
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
    CHECK(says(error_of([&] { open_index(path, options); }), file.filename().string()));
    const VerifyReport report = verify_dataset(*index, 1, null_events(), {});
    REQUIRE(report.damaged_files.size() == 1);
    CHECK(says(report.damaged_files[0].cause, "changed after the index was made"));
  }
}

TEST_CASE("images that were named by a range are listed anew when one of them changed") {
  const DatasetFolder folder;
  folder.add("1.png", "1");
  folder.add("2.png", "2");
  const fs::path range = folder.root() / "{1..2}.png";
  keep_index(range);
  testing::KeptEvents events;
  open_dataset(range, {}, events, {});
  CHECK(events.activities.empty());
  overwrite(folder.root() / "1.png", "123");
  CHECK((*open_index(range))[0].length == 3);
}
