#include <doctest/doctest.h>

#include <string>

#include "../../base/texts.hpp"
#include "base/error.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
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

TEST_CASE("keys choose the members, the preferred one first, in any case of the letters") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.depth.png", "depth") + file_member("a.JPG", "image") + file_member("a.coarse.cls", "7") +
                          file_member("a.fine.CLS", "9") + file_member("b.png", "second") + file_member("b.depth.png", "deep") +
                          file_member("b.coarse.cls", "8") + tar_end());
  OpenOptions options;
  options.keys = {"Jpg;png", "fine.cls;coarse.cls"};
  const auto index = open_index(folder, options);
  REQUIRE(index->size() == 2);
  CHECK(content(*index, 0) == "image");
  CHECK(content(*index, 1) == "second");
  CHECK((*index)[0].label == 9);
  CHECK((*index)[1].label == 8);
  options.keys = {"depth.png", "coarse.cls"};
  const auto depth = open_index(folder, options);
  CHECK(content(*depth, 0) == "depth");
  CHECK((*depth)[0].label == 7);
  CHECK(depth->facts().digest != index->facts().digest);
}

TEST_CASE("two members that could be the sample are an error that names them, until keys choose") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.png", "1") + file_member("a.jpg", "2") + tar_end());
  const std::string error = open_error(folder);
  CHECK(says(error, "a.png and a.jpg"));
  CHECK(says(error, "--image-key"));
  OpenOptions options;
  options.keys.image = "jpg;png";
  CHECK(content(*open_index(folder, options), 0) == "2");
  options.keys.image = "png;jpg";
  CHECK(content(*open_index(folder, options), 0) == "1");
}

TEST_CASE("where no member has a sample's or a label's extension, those that are there are named") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.rgb.jpg", "1") + file_member("b.rgb.jpg", "2") + tar_end());
  CHECK(says(open_error(folder), "rgb.jpg (2)"));
  CHECK(says(open_error(folder), "--image-key"));
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("a.coarse.cls", "2") + file_member("a.fine.cls", "2") + tar_end());
  CHECK(says(open_error(folder), "coarse.cls (1), fine.cls (1)"));
  CHECK(says(open_error(folder), "--label-key"));
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("a.json", "2") + tar_end());
  CHECK((*open_index(folder))[0].label == 0);
  OpenOptions options;
  options.keys.label = "cls";
  CHECK(says(testing::error_of([&] { open_index(folder, options); }), "json (1)"));
}

TEST_CASE("what is no key, or of no use for a dataset, is refused") {
  const DatasetFolder folder;
  folder.add("x.jpg");
  OpenOptions options;
  for (const char* key : {";", "jpg;", ".jpg", "a/b", "jpg,png"}) {
    options.keys.image = key;
    CHECK_THROWS_AS(open_index(folder, options), UsageError);
  }
  options.keys.image = "jpg";
  CHECK(says(testing::error_of([&] { open_index(folder, options); }), "image files"));
}

TEST_CASE("an extension that would be data and label is refused") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("a.cls", "1") + file_member("a.fine.cls", "2") + tar_end());
  using Given = std::pair<std::string, std::string>;
  for (const Given& given : {Given{"cls", ""}, {"CLS", "fine.cls"}, {"jpg;fine.cls", ""}, {"", "jpg"}, {"jpg;idx", "cls;IDX"}}) {
    CAPTURE(given.first);
    OpenOptions options;
    options.keys = {given.first, given.second};
    CHECK_THROWS_AS(open_index(folder, options), UsageError);
  }
  OpenOptions good;
  good.keys = {"jpg", "fine.cls;cls"};
  CHECK((*open_index(folder, good))[0].label == 2);
}

TEST_CASE("an index that was made with other keys is not used") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("a.cls", "1") + file_member("a.fine.cls", "2") + tar_end());
  OpenOptions fine;
  fine.keys.label = "fine.cls";
  write_index_file(*open_index(folder), default_index_file(folder.root()));
  CHECK((*open_index(folder, fine))[0].label == 2);
  write_index_file(*open_index(folder, fine), default_index_file(folder.root()));  // as if the names of two index files collided
  CHECK((*open_index(folder))[0].label == 1);
  write_index_file(*open_index(folder, fine), default_index_file(folder.root(), fine.keys));
  testing::KeptEvents events;
  CHECK((*open_dataset(folder.root(), fine, events, {}))[0].label == 2);
  CHECK(events.activities.empty());

  OpenOptions given;
  given.index_file = default_index_file(folder.root(), fine.keys);
  const std::string error = testing::error_of([&] { open_index(folder, given); });
  CHECK(says(error, "fine.cls"));
  given.keys = fine.keys;
  CHECK((*open_index(folder, given))[0].label == 2);
}

TEST_CASE("what a conversion writes is never taken for a member that WebDataset keeps for itself") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.img", "\xff\xd8\xff picture") + file_member("a.cls", "1") + tar_end());
  OpenOptions options;
  options.keys.image = "img";
  ConvertOptions to_folder;
  to_folder.format = ConvertFormat::folder;
  convert_dataset(*open_index(folder, options), folder.path() / "files", to_folder, null_events(), {});
  CHECK(sample_name(*open_index(folder.path() / "files"), 0) == "1/a.img.jpg");

  const DatasetFolder classes;
  classes.add("__a__/x.jpg", "x");
  classes.add("_____/x.jpg", "x");
  convert_dataset(*open_index(classes), classes.path() / "shards", {}, null_events(), {});
  CHECK(open_index(classes.path() / "shards")->size() == 2);
}
