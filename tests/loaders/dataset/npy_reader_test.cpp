#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../../base/texts.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "npy_files.hpp"
#include "opened_dataset.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::npy_array;
using testing::open_error;
using testing::open_index;
using testing::says;
using testing::Shape;

namespace {

namespace fs = std::filesystem;

std::string fortran(std::string text) {
  const std::size_t place = text.find("False");
  return text.replace(place, 5, "True ");
}

std::string content(const DatasetIndex& index, SampleId sample) {
  std::vector<std::byte> bytes;
  const std::string cause = read_sample_bytes(index, sample, bytes);
  return cause.empty() ? testing::text_of(bytes) : "cannot: " + cause;
}

}  // namespace

TEST_CASE("the rows of a named array are samples, with labels from the file beside it") {
  const DatasetFolder folder;
  folder.add("x.npy", npy_array("<i2", {3, 2}, "aabbccddeeff"));
  folder.add("x.labels.npy", npy_array(">i2", {3}, std::string("\0\2\0\0\0\1", 6)));
  folder.add("x.labels.txt", "ant\nbee\ncat\n");
  const auto index = open_index(folder.root() / "x.npy");
  REQUIRE(index->size() == 3);
  CHECK(index->facts().format == "npy");
  REQUIRE(index->facts().array);
  CHECK(*index->facts().array == ArrayDescription{"<i2", {2}, 4});
  CHECK(content(*index, 0) == "aabb");
  CHECK(content(*index, 2) == "eeff");
  CHECK(index->labels() == std::vector<std::string>{"ant", "bee", "cat"});
  CHECK((*index)[0].label == 2);
  CHECK((*index)[2].label == 1);
  CHECK(sample_name(*index, 2) == "x.npy: row 2");
  CHECK(index->facts().files.size() == 3);
}

TEST_CASE("in a folder each array file is a sample, class folders give labels; samples.npy alone counts as the named array") {
  const DatasetFolder folder;
  folder.add("a/1.npy", npy_array("|u1", {2}, "xy"));
  folder.add("b/2.npy", npy_array("|u1", {2}, "zw"));
  const auto files = open_index(folder.root());
  REQUIRE(files->size() == 2);
  CHECK(files->facts().array->shape == Shape{2});
  CHECK(content(*files, 1) == "zw");
  CHECK(files->labels() == std::vector<std::string>{"a", "b"});
  CHECK(sample_name(*files, 1) == "b/2.npy");

  const DatasetFolder rows;
  rows.add("samples.npy", npy_array("|u1", {2, 1}, "xy"));
  rows.add("samples.labels.npy", npy_array("<i8", {2}, std::string(16, '\0')));
  CHECK(open_index(rows.root())->size() == 2);
  CHECK(open_index(rows.root())->facts().skipped_count == 0);

  // Beside another array it is a sample like that one.
  const DatasetFolder both;
  both.add("samples.npy", npy_array("|u1", {3}, "xyz"));
  both.add("train.npy", npy_array("|u1", {3}, "abc"));
  CHECK(open_index(both.root())->size() == 2);
  CHECK(content(*open_index(both.root()), 0) == "xyz");

  const DatasetFolder single;
  single.add("train.npy", npy_array("|u1", {2, 1}, "xy"));
  const auto one = open_index(single.root());
  CHECK(one->size() == 1);
  REQUIRE(one->facts().findings.size() == 1);
  CHECK(one->facts().findings[0].code == "npy-single-file");
}

TEST_CASE("arrays that differ are an error that names two and says what each is") {
  const DatasetFolder folder;
  folder.add("1.npy", npy_array("|u1", {2}, "xy"));
  folder.add("2.npy", npy_array("|i1", {2}, "xy"));
  const std::string error = open_error(folder.root());
  CHECK(says(error, "1.npy is 2 of |u1"));
  CHECK(says(error, "2.npy is 2 of |i1"));
}

TEST_CASE("array files that are none are samples that fail, and are named") {
  const DatasetFolder folder;
  folder.add("1.npy", "");
  folder.add("2.npy", npy_array("|u1", {2}, "xy"));
  folder.add("3.npy", std::string(500, 'x'));
  folder.add("4.npy", npy_array("|u1", {2}, "x"));
  const auto index = open_index(folder.root());
  REQUIRE(index->size() == 4);
  CHECK(content(*index, 1) == "xy");
  for (const SampleId bad : {0U, 2U, 3U}) CHECK(says(content(*index, bad), "cannot"));
  REQUIRE(index->facts().findings.size() == 1);
  CHECK(says(index->facts().findings[0].message, "2 files"));
  CHECK(verify_dataset(*index, 1, null_events(), {}).failed == 3);
}

TEST_CASE("a torn array keeps its whole rows; the next one fails, and what is missing is counted") {
  const DatasetFolder folder;
  folder.add("x.npy", npy_array("|u1", {1'000'000'000'000, 4}, "aaaabbbbcc"));
  const auto index = open_index(folder.root() / "x.npy");
  REQUIRE(index->size() == 3);
  CHECK(content(*index, 1) == "bbbb");
  CHECK(says(content(*index, 2), "cannot"));
  REQUIRE(index->facts().findings.size() == 1);
  CHECK(says(index->facts().findings[0].message, "2 of its 1000000000000 rows"));
}

TEST_CASE("arrays whose rows are not what they should be are refused with the reason") {
  const DatasetFolder folder;
  const auto error = [&](const std::string& bytes) {
    folder.add("x.npy", bytes);
    return open_error(folder.root() / "x.npy");
  };
  CHECK(says(error(fortran(npy_array("|u1", {2, 2}, "xxxx"))), "Fortran"));
  CHECK(error(fortran(npy_array("|u1", {2}, "xx"))).empty());
  CHECK(says(error(npy_array("|u1", {}, "x")), "without rows"));
  CHECK(says(error(npy_array("|u1", {0, 3}, "")), "no items"));
  CHECK(says(error(npy_array("|O", {2}, "xx")), "pickled"));
  CHECK(says(error("\x93NUMPY"), "cut off"));
}

TEST_CASE("labels that are no whole numbers, or fewer than rows, are refused by their file's name") {
  const DatasetFolder folder;
  folder.add("x.npy", npy_array("|u1", {3}, "abc"));
  const auto error = [&](const std::string& labels) {
    folder.add("x.labels.npy", labels);
    return open_error(folder.root() / "x.npy");
  };
  CHECK(says(error(npy_array("<f4", {3}, std::string(12, 'x'))), "x.labels.npy"));
  CHECK(says(error(npy_array("<i9", {3}, std::string(27, 'x'))), "whole numbers"));
  CHECK(says(error(npy_array("|u1", {3, 1}, "abc")), "whole numbers"));
  CHECK(says(error(npy_array("|u1", {2}, "ab")), "fewer labels (2 of the 2 that its header names) than the array has rows (3)"));
  CHECK(says(error(npy_array("|u1", {3}, "ab")), "fewer labels"));
  CHECK(error(npy_array("|i1", {3}, "\xff\x01\x02")).empty());
  CHECK(open_index(folder.root() / "x.npy")->labels() == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("an array's index is made anew when the array or its labels changed") {
  const DatasetFolder folder;
  const fs::path path = folder.root() / "x.npy";
  folder.add("x.npy", npy_array("|u1", {2}, "ab"));
  folder.add("x.labels.npy", npy_array("|u1", {2}, std::string(2, '\1')));
  write_index_file(*open_index(path), default_index_file(path));
  folder.add("x.labels.npy", npy_array("|u1", {3}, std::string(3, '\2')));
  CHECK((*open_index(path))[0].label == 2);
  folder.add("x.npy", npy_array("|u1", {3}, "abc"));
  CHECK(open_index(path)->size() == 3);
}
