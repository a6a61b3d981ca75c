#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "../../base/texts.hpp"
#include "../prep/jpeg_images.hpp"
#include "../prep/png_images.hpp"
#include "base/system/files.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

// A conversion keeps every sample's label number, or refuses by name; and gives one image one row.

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::file_member;
using testing::KeptEvents;
using testing::open_index;
using testing::says;
using testing::tar_end;
using testing::text_of;

namespace {

namespace fs = std::filesystem;

/// The label of each sample by its content.
std::map<std::string, std::uint32_t> labels_by_content(const fs::path& path) {
  const auto index = open_index(path);
  std::map<std::string, std::uint32_t> labels;
  std::vector<std::byte> bytes;
  for (SampleId sample = 0; sample < index->size(); ++sample) {
    REQUIRE(read_sample_bytes(*index, sample, bytes).empty());
    labels[text_of(bytes)] = (*index)[sample].label;
  }
  return labels;
}

/// A shard of one sample a label, and the labels' names.
void add_labelled(const DatasetFolder& folder, const std::vector<int>& labels, const std::string& names) {
  std::string content;
  for (const int label : labels) {
    const std::string number = std::to_string(label);
    content += file_member("s" + number + ".jpg", "sample " + number) + file_member("s" + number + ".cls", number);
  }
  folder.add("x.tar", content + tar_end());
  folder.add("labels.txt", names);
}

void convert(const fs::path& from, const fs::path& to, ConvertFormat format, EventSink& events = null_events()) {
  ConvertOptions options;
  options.format = format;
  options.side = 32;
  convert_dataset(*open_index(from), to, options, events, {});
}

}  // namespace

TEST_CASE("classes keep their numbers in a folder where names repeat, differ in a slash alone, or are in no order") {
  for (const char* names : {"crane\nzebra\ncrane\n", "a/b\na_b\nc\n", "dog\ncat\nant\n", "\n\n\n", ".\nb\nc\n", "..\n.\n_.\n"}) {
    CAPTURE(names);
    const DatasetFolder folder;
    add_labelled(folder, {0, 1, 2}, names);
    KeptEvents events;
    convert(folder.root(), folder.path() / "files", ConvertFormat::folder, events);
    CHECK(labels_by_content(folder.path() / "files") == labels_by_content(folder.root()));
    CHECK(open_index(folder.path() / "files")->labels().size() == 3);
    REQUIRE(events.findings.size() == 1);
    CHECK(events.findings[0].code == "classes-numbered");
  }
}

TEST_CASE("names that are in order and of their own become folders as they are") {
  const DatasetFolder folder;
  add_labelled(folder, {0, 1, 2}, "ant\nbee\ncat\n");
  KeptEvents events;
  convert(folder.root(), folder.path() / "files", ConvertFormat::folder, events);
  CHECK(open_index(folder.path() / "files")->labels() == std::vector<std::string>{"ant", "bee", "cat"});
  CHECK(events.findings.empty());
}

TEST_CASE("a class without samples keeps the numbers of those behind it") {
  const DatasetFolder folder;
  add_labelled(folder, {0, 2}, "ant\nbee\ncat\n");
  const auto labels = labels_by_content(folder.root());
  convert(folder.root(), folder.path() / "files", ConvertFormat::folder);
  CHECK(labels_by_content(folder.path() / "files") == labels);
  CHECK(open_index(folder.path() / "files")->labels() == std::vector<std::string>{"ant", "bee", "cat"});
  convert(folder.path() / "files", folder.path() / "shards", ConvertFormat::tar);
  CHECK(labels_by_content(folder.path() / "shards") == labels);
}

TEST_CASE("labels that have names become folders however few samples there are, up to 100,000 without samples") {
  const auto names = [](int count) {
    std::string text;
    for (int label = 0; label < count; ++label) text += "n" + std::to_string(1'000'000 + label) + "\n";
    return text;
  };
  const DatasetFolder folder;
  add_labelled(folder, {7, 1'200}, names(1'201));
  convert(folder.root(), folder.path() / "files", ConvertFormat::folder);
  CHECK(labels_by_content(folder.path() / "files") == labels_by_content(folder.root()));
  const DatasetFolder beyond;
  add_labelled(beyond, {7, 1'200}, names(100'003));
  CHECK(says(error_of([&] { convert(beyond.root(), beyond.path() / "files", ConvertFormat::folder); }), "100001 folders"));
}

TEST_CASE("labels so far apart that folders of no samples would swamp the others are refused, with what to do; no folder is left") {
  for (const std::vector<int>& labels : {std::vector<int>{0, 200'001}, {5'000}, {1'000'000}}) {
    const DatasetFolder folder;
    add_labelled(folder, labels, "");
    fs::remove(folder.root() / "labels.txt");
    const std::string error = error_of([&] { convert(folder.root(), folder.path() / "files", ConvertFormat::folder); });
    INFO(error);
    CHECK(says(error, "up to " + std::to_string(labels.back())));
    CHECK(says(error, "tar or npy"));
    CHECK_FALSE(fs::exists(folder.path() / "files"));
    convert(folder.root(), folder.path() / "shards", ConvertFormat::tar);
    CHECK(labels_by_content(folder.path() / "shards") == labels_by_content(folder.root()));
  }
  const DatasetFolder folder;
  add_labelled(folder, {0, 900}, "");
  fs::remove(folder.root() / "labels.txt");
  convert(folder.root(), folder.path() / "files", ConvertFormat::folder);
  CHECK(labels_by_content(folder.path() / "files") == labels_by_content(folder.root()));
}

TEST_CASE("a sample of no class stays of none where its own name begins with a class's") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("ant/x.jpg", "1") + file_member("ant/x.cls", "1") + file_member("ant/y.jpg", "2") + file_member("ant/y.cls", "0") +
                          tar_end());
  folder.add("labels.txt", "ant\n.\n");
  convert(folder.root(), folder.path() / "files", ConvertFormat::folder);
  CHECK(labels_by_content(folder.path() / "files") == labels_by_content(folder.root()));
}

TEST_CASE("an image has one row, whatever its place, also where its sides differ by one pixel") {
  for (const auto& sides : {std::pair{101, 100}, {100, 101}, {33, 32}, {2, 1}, {140, 100}}) {
    const int width = sides.first;
    const int height = sides.second;
    CAPTURE(width);
    const DatasetFolder folder;
    const std::string image = text_of(test::encode_png({.width = width, .height = height}));
    for (int number = 0; number < 12; ++number) folder.add(std::to_string(number) + ".png", image);
    convert(folder.root(), folder.path() / "rows", ConvertFormat::npy);
    const std::string rows = read_file(folder.path() / "rows" / "samples.npy").substr(128);
    const std::size_t row = rows.size() / 12;
    for (std::size_t number = 1; number < 12; ++number) CHECK(rows.compare(number * row, row, rows, 0, row) == 0);
  }
}
