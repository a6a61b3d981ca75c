#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../../base/texts.hpp"
#include "../loader_rig.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

// Datasets whose labels are of no use, and that are read without them.

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::file_member;
using testing::says;
using testing::tar_end;

namespace {

std::shared_ptr<const DatasetIndex> open_without_labels(const std::filesystem::path& path) {
  OpenOptions options;
  options.keys.label = "none";
  return open_dataset(path, options, null_events(), {});
}

std::string picture() { return testing::text_of(test::encode_picture({.width = 40, .height = 30})); }

/// Two samples with these labels; "" for none.
std::string two_samples(const std::string& first, const std::string& second) {
  const auto label = [](const std::string& name, const std::string& text) { return text.empty() ? text : file_member(name, text); };
  return file_member("a.jpg", picture()) + label("a.cls", first) + file_member("b.jpg", picture()) + label("b.cls", second) + tar_end();
}

void has_no_labels(const DatasetIndex& index) {
  for (const IndexRecord& record : index.records()) CHECK(record.label == 0);
  CHECK(index.labels() == std::vector<std::string>{"."});
  CHECK(index.facts().findings.empty());
  CHECK(verify_dataset(index, 2, null_events(), {}).failed == 0);
}

}  // namespace

TEST_CASE("with the label key none, shards whose labels are texts, negative, partly missing or of another extension are valid throughout") {
  const DatasetFolder folder;
  folder.add("labels.txt", "ant\nbee\n");
  for (const auto& labels : {std::pair("cat", "dog"), {"-1", "-1"}, {"1", ""}, {"0", "1"}, {"", ""}}) {
    CAPTURE(labels.first);
    folder.add("x.tar", two_samples(labels.first, labels.second));
    const auto index = open_without_labels(folder.root());
    CHECK(index->size() == 2);
    has_no_labels(*index);
  }
  folder.add("x.tar", file_member("a.jpg", picture()) + file_member("a.coarse.cls", "7") + tar_end());
  has_no_labels(*open_without_labels(folder.root() / "x.tar"));
}

TEST_CASE("with the label key none, rows of an array and files in class folders have label 0") {
  const DatasetFolder folder;
  const std::vector<std::uint64_t> rows{3};
  const std::vector<std::int64_t> labels{-1, -1, 5};
  folder.add("x.npy", make_npy_header("|u1", rows) + "abc");
  folder.add("x.labels.npy", make_npy_header("<i8", rows) + std::string(reinterpret_cast<const char*>(labels.data()), 24));
  folder.add("x.labels.txt", "ant\n");
  has_no_labels(*open_without_labels(folder.root() / "x.npy"));
  const DatasetFolder images;
  images.add("ant/1.jpg", picture());
  images.add("bee/1.jpg", picture());
  has_no_labels(*open_without_labels(images.root()));
}

TEST_CASE("an index without labels is not used where labels are wanted, nor the other way round") {
  const DatasetFolder folder;
  folder.add("x.tar", two_samples("3", "4"));
  OpenOptions options;
  options.index_file = folder.path() / "x.dsidx";
  write_index_file(*open_without_labels(folder.root()), *options.index_file);
  CHECK(says(error_of([&] { open_dataset(folder.root(), options, null_events(), {}); }), "--label-key \"none\""));
  options.keys.label = "none";
  has_no_labels(*open_dataset(folder.root(), options, null_events(), {}));
}

TEST_CASE("whatever says that samples lack a valid label names the way to do without labels") {
  constexpr const char* way_out = "--label-key none";
  const DatasetFolder folder;
  for (const auto& [first, second] : {std::pair("cat", "1"), {"1", ""}}) {
    folder.add("x.tar", two_samples(first, second));
    const auto index = testing::open_index(folder);
    REQUIRE(index->facts().findings.size() == 1);
    CHECK(says(index->facts().findings[0].message, way_out));
    CHECK(says(verify_dataset(*index, 2, null_events(), {}).failures[0].cause, way_out));
    CHECK(says(error_of([&] { convert_dataset(*index, folder.path() / "to", {}, null_events(), {}); }), way_out));
  }
  const std::vector<std::uint64_t> rows{2};
  folder.add("y.npy", make_npy_header("|u1", rows) + "ab");
  folder.add("y.labels.npy", make_npy_header("|i1", rows) + "\xff\1");
  CHECK(says(testing::open_index(folder.root() / "y.npy")->facts().findings[0].message, way_out));
}

TEST_CASE("a conversion of one shard that has nothing to convert names the shard, not its folder") {
  const DatasetFolder folder;
  folder.add("x.tar", two_samples("cat", "dog"));
  ConvertOptions options;
  options.bad = BadSamples::skip;
  const auto index = testing::open_index(folder.root() / "x.tar");
  CHECK(says(error_of([&] { convert_dataset(*index, folder.path() / "to", options, null_events(), {}); }),
             "of " + (folder.root() / "x.tar").string() + " can be converted"));
}
