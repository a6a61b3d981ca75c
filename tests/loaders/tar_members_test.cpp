#include <doctest/doctest.h>

#include <string>

#include "../base/texts.hpp"
#include "dataset/npy_header.hpp"
#include "dataset/sample_bytes.hpp"
#include "dataset_folder.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

// Which members of a shard are a sample's data and its label, as WebDataset chooses them.

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::file_member;
using testing::open_error;
using testing::open_index;
using testing::says;
using testing::tar_end;

namespace {

std::string content(const DatasetIndex& index, SampleId sample) {
  std::vector<std::byte> bytes;
  const std::string cause = read_sample_bytes(index, sample, bytes);
  return cause.empty() ? testing::text_of(bytes) : "cannot: " + cause;
}

std::string finding(const DatasetIndex& index, const std::string& code) {
  for (const Finding& one : index.facts().findings) {
    if (one.code == code) return one.message;
  }
  return {};
}

}  // namespace

TEST_CASE("a member whose extension only ends in .cls or .png is neither the label nor the image") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.depth.png", "depth") + file_member("a.coarse.cls", "7") + file_member("a.jpg", "image") +
                          file_member("a.cls", "3") + file_member("a.fine.cls", "9") + tar_end());
  const auto index = open_index(folder);
  REQUIRE(index->size() == 1);
  CHECK(content(*index, 0) == "image");
  CHECK((*index)[0].label == 3);
  CHECK(index->facts().findings.empty());
}

TEST_CASE("a key with two members of one extension is an error that names them, in any case of the letters") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("a.cls", "1") + file_member("a.JPG", "2") + file_member("a.CLS", "2") + tar_end());
  const std::string error = open_error(folder);
  INFO(error);
  CHECK(says(error, "x.tar"));
  CHECK(says(error, "a.jpg"));
  CHECK(says(error, "a.JPG"));
}

TEST_CASE("a key that comes again whole is another sample, as in WebDataset, and is named") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("a.cls", "1") + file_member("b.jpg", "2") + file_member("b.cls", "2") +
                          file_member("a.jpg", "3") + file_member("a.cls", "3") + tar_end());
  const auto index = open_index(folder);
  REQUIRE(index->size() == 3);
  CHECK(content(*index, 2) == "3");
  CHECK((*index)[0].label == 1);
  CHECK((*index)[2].label == 3);
  CHECK(says(finding(*index, "tar-keys-repeated"), "x.tar: a"));
}

TEST_CASE("members that WebDataset keeps for itself are no samples") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("__meta__", "1") + file_member("__index__/a.jpg", "1") + file_member("__meta__.jpg", "2") +
                          file_member("d/__meta__/a.jpg", "3") + tar_end());
  const auto index = open_index(folder);
  REQUIRE(index->size() == 2);
  CHECK(content(*index, 0) == "2");
  CHECK(content(*index, 1) == "3");
}
