#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
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

// Samples without a valid label among others that have one: no consumer may take them for class 0.

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::file_member;
using testing::open_index;
using testing::says;
using testing::tar_end;

namespace {

using Labels = std::vector<std::optional<std::uint32_t>>;

Labels labels_of(const DatasetIndex& index) {
  Labels labels;
  for (const IndexRecord& record : index.records()) labels.push_back(record.has_label() ? std::optional(record.label) : std::nullopt);
  return labels;
}

std::string message_of(const DatasetIndex& index, const std::string& code) {
  for (const Finding& one : index.facts().findings) {
    if (one.code == code) return one.message;
  }
  return {};
}

/// Pictures with labels 0, `odd` and 1: "a.jpg", "b.jpg" and "c.jpg". Without a value for `odd`, b has no label member.
std::string three_pictures(const std::optional<std::string>& odd) {
  const std::string picture = testing::text_of(test::encode_picture({.width = 40, .height = 30}));
  return file_member("a.jpg", picture) + file_member("a.cls", "0") + file_member("b.jpg", picture) + (odd ? file_member("b.cls", *odd) : "") +
         file_member("c.jpg", picture) + file_member("c.cls", "1") + tar_end();
}

/// Four rows of one byte, with labels of 64 bits.
void add_rows(const DatasetFolder& folder, const std::vector<std::int64_t>& labels) {
  const std::uint64_t rows = labels.size();
  folder.add("x.npy", make_npy_header("|u1", std::span(&rows, 1)) + std::string(rows, 'r'));
  folder.add("x.labels.npy",
             make_npy_header("<i8", std::span(&rows, 1)) + std::string(reinterpret_cast<const char*>(labels.data()), 8 * labels.size()));
}

}  // namespace

TEST_CASE("a label that is no whole number from 0 to 2147483647 is none, and the classes of the others stay as they are") {
  const DatasetFolder folder;
  for (const char* odd : {"abc", "", "1e400", "-7", "2147483648", "9000000000000000000", "99999999999999999999", "1.0", "0x1", "1 2"}) {
    CAPTURE(odd);
    folder.add("x.tar", three_pictures(odd));
    const auto index = open_index(folder);
    CHECK(labels_of(*index) == Labels{0, std::nullopt, 1});
    CHECK(index->labels() == std::vector<std::string>{"0", "1"});
    CHECK(says(message_of(*index, "tar-labels-unreadable"), "x.tar: b.cls"));
    CHECK(message_of(*index, "labels-renumbered").empty());
  }
}

TEST_CASE("a label that is missing among others is none; where no sample has one, all have label 0") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures(std::nullopt));
  CHECK(labels_of(*open_index(folder)) == Labels{0, std::nullopt, 1});
  folder.add("x.tar", file_member("a.jpg", "a") + file_member("b.jpg", "b") + tar_end());
  CHECK(labels_of(*open_index(folder)) == Labels{0, 0});
  CHECK(open_index(folder)->facts().findings.empty());
}

TEST_CASE("labels of rows that are no class are none, and named") {
  const DatasetFolder folder;
  add_rows(folder, {2, -1, 0, std::int64_t{1} << 31});
  const auto index = open_index(folder.root() / "x.npy");
  CHECK(labels_of(*index) == Labels{2, std::nullopt, 0, std::nullopt});
  CHECK(says(message_of(*index, "npy-labels-invalid"), "row 1 (-1), row 3 (2147483648)"));
  const VerifyReport report = verify_dataset(*index, 2, null_events(), {});
  CHECK(report.failed == 2);
  REQUIRE(report.failures.size() == 2);
  CHECK(report.failures[0].path == "x.npy: row 1");
}

TEST_CASE("an index file keeps that a sample has no label") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures("abc"));
  const auto index = open_index(folder);
  write_index_file(*index, folder.path() / "x.dsidx");
  CHECK(labels_of(*read_index_file(folder.path() / "x.dsidx")) == Labels{0, std::nullopt, 1});
  CHECK(labels_of(*subset_index(*index, std::vector<SampleId>{1, 2})) == Labels{std::nullopt, 1});
  folder.add("x.tar", three_pictures("0"));
  CHECK(open_index(folder)->facts().digest != index->facts().digest);
}

TEST_CASE("verify names a sample without a valid label as failed") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures("abc"));
  const VerifyReport report = verify_dataset(*open_index(folder), 2, null_events(), {});
  CHECK(report.failed == 1);
  CHECK(report.damaged_files.empty());
  REQUIRE(report.failures.size() == 1);
  CHECK(says(report.failures[0].path, "x.tar: b.jpg"));
  CHECK(says(report.failures[0].cause, "label"));
}

TEST_CASE("verify reads and decodes a sample without a valid label as well") {
  const DatasetFolder folder;
  const std::string shard = three_pictures("abc");
  folder.add("x.tar", three_pictures("5"));
  const std::string digest = verify_dataset(*open_index(folder), 2, null_events(), {}).content_digest;
  folder.add("x.tar", shard);
  const VerifyReport report = verify_dataset(*open_index(folder), 2, null_events(), {});
  CHECK(report.content_digest == digest);
  CHECK(report.pixels == 3 * 40 * 30);
  std::string damaged = shard;
  damaged.replace(damaged.find("b.jpg") + 512, 4, "none");
  folder.add("x.tar", damaged);
  const VerifyReport other = verify_dataset(*open_index(folder), 2, null_events(), {});
  CHECK(other.content_digest != digest);
  REQUIRE(other.failures.size() == 1);
  CHECK(says(other.failures[0].cause, "not a JPEG"));
}

TEST_CASE("verify digests the rows of an array that have no valid label") {
  const DatasetFolder folder;
  add_rows(folder, {0, -1});
  const VerifyReport without = verify_dataset(*open_index(folder.root() / "x.npy"), 1, null_events(), {});
  add_rows(folder, {0, 1});
  const VerifyReport with = verify_dataset(*open_index(folder.root() / "x.npy"), 1, null_events(), {});
  CHECK(without.failed == 1);
  CHECK(without.bytes == with.bytes);
  CHECK(without.content_digest == with.content_digest);
}

TEST_CASE("a label of an unsigned array beyond all signed numbers is named as it is") {
  const DatasetFolder folder;
  const std::vector<std::uint64_t> rows{2};
  const std::vector<std::uint64_t> labels{1, 18'446'744'073'709'551'615U};
  folder.add("x.npy", make_npy_header("|u1", rows) + "ab");
  folder.add("x.labels.npy", make_npy_header("<u8", rows) + std::string(reinterpret_cast<const char*>(labels.data()), 16));
  const auto index = open_index(folder.root() / "x.npy");
  CHECK(labels_of(*index) == Labels{1, std::nullopt});
  CHECK(says(message_of(*index, "npy-labels-invalid"), "row 1 (18446744073709551615)"));
}

TEST_CASE("names of labels come without a byte order mark and without blank lines at the end") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures("1"));
  folder.add("labels.txt",
             "\xef\xbb\xbf"
             "ant\nbee\n\n\r\n");
  CHECK(open_index(folder)->labels() == std::vector<std::string>{"ant", "bee"});
}

TEST_CASE("a sample that a conversion leaves out for its label takes no other's name") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("0/x.jpg", "a") + file_member("x.jpg", "b") + file_member("x.cls", "0") + tar_end());
  ConvertOptions options;
  options.format = ConvertFormat::folder;
  options.bad = BadSamples::skip;
  const ConvertReport report = convert_dataset(*open_index(folder), folder.path() / "to", options, null_events(), {});
  CHECK(report.samples == 1);
  CHECK(report.failed == 1);
}

TEST_CASE("a conversion refuses a sample without a valid label by name, or leaves it out and counts it") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures("abc"));
  const auto index = open_index(folder);
  for (const ConvertFormat format : {ConvertFormat::folder, ConvertFormat::tar, ConvertFormat::npy}) {
    CAPTURE(static_cast<int>(format));
    ConvertOptions options;
    options.format = format;
    options.order = format == ConvertFormat::folder ? std::nullopt : std::optional(ConvertOrder::index);
    options.side = 16;
    const std::filesystem::path to = folder.path() / "converted";
    const std::string error = error_of([&] { convert_dataset(*index, to, options, null_events(), {}); });
    CHECK(says(error, "x.tar: b.jpg"));
    CHECK(says(error, "label"));
    CHECK_FALSE(std::filesystem::exists(to));
    options.bad = BadSamples::skip;
    const ConvertReport report = convert_dataset(*index, to, options, null_events(), {});
    CHECK(report.samples == 2);
    CHECK(report.failed == 1);
    REQUIRE(report.failures.size() == 1);
    CHECK(says(report.failures[0].path, "b.jpg"));
    CHECK(labels_of(*open_index(to)) == Labels{0, 1});
    std::filesystem::remove_all(to);
  }
}

TEST_CASE("a loader gives no sample without a valid label to training: it fails by the policy for errors, counted by its cause and named") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures("abc"));
  for (const CacheKind cache : {CacheKind::none, CacheKind::minio}) {
    for (const OnError on_error : {OnError::skip, OnError::substitute, OnError::fail}) {
      CAPTURE(static_cast<int>(on_error));
      const auto index = open_index(folder);
      testing::Rig rig(index, cache, cache == CacheKind::none ? 0 : index->bytes(), testing::no_prep());
      LoaderOptions options = testing::loader_options(3, 2);
      options.on_error = on_error;
      auto loader = rig.loader(options);
      const testing::Seen seen = testing::consume(*loader);
      for (const auto& epoch : seen.epochs) CHECK(std::ranges::find(epoch, SampleId{1}) == epoch.end());
      const auto counts = loader->failure_counts();
      REQUIRE(counts.size() == 1);
      CHECK(says(counts[0].cause, "label"));
      CHECK(says(counts[0].example, "x.tar: b.jpg"));
      CHECK(seen.end.code == (on_error == OnError::fail ? StatusCode::corrupt : StatusCode::end));
      if (on_error != OnError::fail) CHECK(loader->failed_samples() == 2);
    }
  }
}

TEST_CASE("a shard that is cut off is called so, not one whose label is missing") {
  const DatasetFolder folder;
  const std::string whole = three_pictures("5");
  folder.add("good.tar", whole);
  const std::size_t label_of_b = whole.find("b.cls");
  for (const std::size_t length : {label_of_b, label_of_b + 200, label_of_b + 512}) {
    CAPTURE(length);
    folder.add("x.tar", whole.substr(0, length));
    const auto index = open_index(folder);
    CHECK(labels_of(*index) == Labels{0, 5, 1, 0, std::nullopt});
    const char* what = length == label_of_b ? "x.tar ends without an end marker at byte " : "x.tar is cut off at byte ";
    CHECK(says(message_of(*index, "tar-torn"), what + std::to_string(length)));
    CHECK(message_of(*index, "labels-missing").empty());
    CHECK(message_of(*index, "tar-labels-unreadable").empty());
    const VerifyReport report = verify_dataset(*index, 2, null_events(), {});
    REQUIRE(report.failures.size() == 1);
    CHECK(says(report.failures[0].cause, "cut off"));
    REQUIRE(report.damaged_files.size() == 1);
    CHECK(says(report.damaged_files[0].cause, length == label_of_b ? "without an end marker" : "is cut off at byte"));
  }
}

TEST_CASE("fewer names than labels are said with both counts") {
  const DatasetFolder folder;
  folder.add("x.tar", three_pictures("3"));
  folder.add("labels.txt", "ant\nbee\n");
  const auto index = open_index(folder);
  CHECK(index->labels() == std::vector<std::string>{"0", "1", "2", "3"});
  const std::string message = message_of(*index, "label-names-too-few");
  CHECK(says(message, "labels.txt names 2 labels"));
  CHECK(says(message, "4 names"));
  folder.add("labels.txt", "ant\nbee\ncat\ndog\nelk\n");
  CHECK(open_index(folder)->facts().findings.empty());
  add_rows(folder, {1, 0});
  folder.add("x.labels.txt", "ant\n");
  CHECK(says(message_of(*open_index(folder.root() / "x.npy"), "label-names-too-few"), "x.labels.txt names 1 labels"));
}
