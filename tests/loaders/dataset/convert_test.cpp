#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "../../base/texts.hpp"
#include "../prep/jpeg_images.hpp"
#include "../prep/png_images.hpp"
#include "base/system/files.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/tools/convert_output.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::file_member;
using testing::open_index;
using testing::says;
using testing::tar_end;
using testing::text_of;

namespace {

namespace fs = std::filesystem;

ConvertReport convert(const fs::path& from, const fs::path& to, const ConvertOptions& options) {
  return convert_dataset(*open_index(from), to, options, null_events(), {});
}

/// Path and content of each file below.
std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  }
  return files;
}

std::string jpeg_of_quality(int quality) { return text_of(test::encode_picture({.quality = quality})); }

void add_photographs(const DatasetFolder& folder) {
  for (int number = 0; number < 30; ++number) {
    folder.add((number % 3 == 0 ? "ant/" : number % 3 == 1 ? "bee.2/deep/" : "") + std::to_string(number) + ".jpg", jpeg_of_quality(number + 1));
  }
}

constexpr ConvertOptions to_tar{.format = ConvertFormat::tar};
constexpr ConvertOptions to_folder{.format = ConvertFormat::folder};
constexpr ConvertOptions to_npy{.format = ConvertFormat::npy, .side = 32};

std::string content_digest(const fs::path& path) { return verify_dataset(*open_index(path), 2, null_events(), {}).content_digest; }

bool is_empty_but_for(const fs::path& folder, std::size_t entries) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator())) == entries;
}

}  // namespace

TEST_CASE("folder to tar and back gives the same files, names and labels, and the same content all along") {
  const DatasetFolder folder;
  add_photographs(folder);
  ConvertOptions options = to_tar;
  options.shard_bytes = 20'000;
  const ConvertReport report = convert(folder.root(), folder.path() / "shards", options);
  CHECK(report.samples == 30);
  CHECK(report.files > 3);
  CHECK(open_index(folder.path() / "shards")->labels() == open_index(folder.root())->labels());
  CHECK(content_digest(folder.path() / "shards") == content_digest(folder.root()));
  convert(folder.path() / "shards", folder.path() / "back", to_folder);
  CHECK(files_below(folder.path() / "back") == files_below(folder.root()));
  CHECK(open_index(folder.path() / "back")->facts().digest == open_index(folder.root())->facts().digest);
}

TEST_CASE("the same seed writes the same shards whatever the threads; another seed another order; index order keeps it") {
  const DatasetFolder folder;
  add_photographs(folder);
  const auto shards = [&](const std::string& name, std::uint64_t seed, int threads, std::optional<ConvertOrder> order = std::nullopt) {
    ConvertOptions options = to_tar;
    options.shard_bytes = 30'000;
    options.seed = seed;
    options.threads = threads;
    options.order = order;
    convert(folder.root(), folder.path() / name, options);
    return files_below(folder.path() / name);
  };
  const auto one = shards("one", 1, 1);
  CHECK(shards("two", 1, 5) == one);
  CHECK(shards("three", 2, 2) != one);
  shards("four", 1, 2, ConvertOrder::index);
  const auto source = open_index(folder.root());
  const auto kept = open_index(folder.path() / "four");
  for (SampleId sample = 0; sample < source->size(); ++sample) CHECK((*kept)[sample].length == (*source)[sample].length);
}

TEST_CASE("images become rows of one array, arrays become files and tar members, and rows again") {
  const DatasetFolder folder;
  add_photographs(folder);
  const fs::path rows = folder.path() / "rows";
  convert(folder.root(), rows, to_npy);
  const auto index = open_index(rows);
  CHECK(index->size() == 30);
  CHECK(*index->facts().array == ArrayDescription{"|u1", {32, 32, 3}, 3072});
  CHECK(index->labels() == open_index(folder.root())->labels());
  CHECK((*index)[29].label == (*open_index(folder.root()))[29].label);
  ConvertOptions by_index = to_tar;
  by_index.order = ConvertOrder::index;
  convert(rows, folder.path() / "members", by_index);
  convert(folder.path() / "members", folder.path() / "files", to_folder);
  convert(folder.path() / "members", folder.path() / "again", to_npy);
  CHECK(content_digest(folder.path() / "members") == content_digest(rows));
  CHECK(content_digest(folder.path() / "files") == content_digest(rows));
  CHECK(files_below(folder.path() / "again") == files_below(rows));
}

TEST_CASE("rows do not depend on the seed or on threads") {
  const DatasetFolder folder;
  add_photographs(folder);
  ConvertOptions options = to_npy;
  convert(folder.root(), folder.path() / "first", options);
  options.seed = 99;
  options.threads = 1;
  convert(folder.root(), folder.path() / "second", options);
  CHECK(files_below(folder.path() / "first") == files_below(folder.path() / "second"));
}

TEST_CASE("a row is the middle of the image, of which the shorter side is resized") {
  const DatasetFolder folder;
  folder.add("x.png", text_of(test::encode_png({.width = 160, .height = 120})));
  ConvertOptions options = to_npy;
  options.side = 120;  // as the image's shorter side: nothing is resized
  convert(folder.root(), folder.path() / "rows", options);
  const std::string row = read_file(folder.path() / "rows" / "samples.npy").substr(128);
  REQUIRE(row.size() == 120 * 120 * 3);
  std::size_t different = 0;
  for (std::size_t place = 0; place < row.size(); ++place) {
    const int x = static_cast<int>(place / 3 % 120) + 20;
    const int y = static_cast<int>(place / 3 / 120);
    different += static_cast<std::uint8_t>(row[place]) != test::picture(x, y, static_cast<int>(place % 3)) ? 1 : 0;
  }
  CHECK(different == 0);
}

TEST_CASE("keys stay apart where names differ in their dots or extension alone, and files without extension get one") {
  const DatasetFolder folder;
  folder.add("a/x.1.jpg", jpeg_of_quality(1));
  folder.add("a/x_1.jpg", jpeg_of_quality(2));
  folder.add("a/x.jpg", jpeg_of_quality(3));
  folder.add("a/x.png", "png");
  convert(folder.root(), folder.path() / "shards", to_tar);
  CHECK(open_index(folder.path() / "shards")->size() == 4);
  CHECK(open_index(folder.path() / "shards")->facts().findings.empty());

  const DatasetFolder bare;
  bare.add("a/0001", jpeg_of_quality(1));
  convert(bare.root(), bare.path() / "shards", to_tar);
  CHECK(says(sample_name(*open_index(bare.path() / "shards"), 0), "a/0001.jpg"));
}

TEST_CASE("shards that use the same names become folders of their own; numbered labels become folders that sort as they count") {
  const DatasetFolder folder;
  for (const char* shard : {"s0.tar", "s1.tar"}) {
    std::string content;
    for (int number = 0; number < 11; ++number) {
      content +=
          file_member("./" + std::to_string(number) + ".jpg", shard) + file_member("./" + std::to_string(number) + ".cls", std::to_string(number));
    }
    folder.add(shard, content + tar_end());
  }
  convert(folder.root(), folder.path() / "files", to_folder);
  const auto files = files_below(folder.path() / "files");
  CHECK(files.size() == 22);
  CHECK(files.at("02/s1/2.jpg") == "s1.tar");
  const auto index = open_index(folder.path() / "files");
  CHECK(index->labels().size() == 11);
  CHECK((*index)[21].label == 10);
}

TEST_CASE("names that lead out of the destination are refused by name, hidden ones made visible") {
  CHECK(clean_path("./a//b/./c.jpg") == "a/b/c.jpg");
  CHECK(clean_path(".git/x.jpg") == "_git/x.jpg");
  CHECK(clean_path("a/...jpg") == "a/_..jpg");
  for (const char* path : {"/etc/x.jpg", "../x.jpg", "a/../../x.jpg", "a/..", "", "."}) CHECK(clean_path(path).empty());

  const DatasetFolder folder;
  folder.add("x.tar", file_member("good.jpg", "1") + file_member("../../evil.jpg", "2") + tar_end());
  const std::string error = error_of([&] { convert(folder.root(), folder.path() / "files", to_folder); });
  CHECK(says(error, "../../evil.jpg"));
  CHECK(says(error, "leads out"));
  CHECK_FALSE(fs::exists(folder.path() / "files"));
  ConvertOptions skip = to_folder;
  skip.bad = BadSamples::skip;
  const ConvertReport report = convert(folder.root(), folder.path() / "files", skip);
  CHECK(report.failed == 1);
  CHECK(files_below(folder.path()).count("evil.jpg") == 0);
  CHECK(files_below(folder.path() / "files").size() == 1);
}

TEST_CASE("a sample that cannot be read ends a conversion by its name and leaves nothing, or is left out and counted") {
  const DatasetFolder folder;
  add_photographs(folder);
  fs::create_symlink("gone", folder.root() / "ant" / "7.jpg");
  folder.add("ant/8.jpg", "this is no image");
  for (const ConvertOptions& options : {to_tar, to_npy}) {
    ConvertOptions skip = options;
    const fs::path place = folder.path() / ("out" + std::to_string(static_cast<int>(options.format)));
    CHECK(says(error_of([&] { convert(folder.root(), place, skip); }), "ant/"));
    CHECK(is_empty_but_for(folder.path(), options.format == ConvertFormat::tar ? 1 : 2));
    skip.bad = BadSamples::skip;
    const ConvertReport report = convert(folder.root(), place, skip);
    const bool decodes = options.format == ConvertFormat::npy;
    CHECK(report.failed == (decodes ? 2 : 1));
    CHECK(report.failures.at(0).path == "ant/7.jpg");
    CHECK(open_index(place)->size() == report.samples);
    CHECK(report.samples + report.failed == 32);
  }
  // What is left of the rows are the good ones, in their order.
  fs::remove(folder.root() / "ant" / "7.jpg");
  fs::remove(folder.root() / "ant" / "8.jpg");
  convert(folder.root(), folder.path() / "good", to_npy);
  CHECK(files_below(folder.path() / "good") == files_below(folder.path() / "out2"));
}

TEST_CASE("a file that grew or shrank since it was indexed is not written as a part of itself") {
  const DatasetFolder folder;
  folder.add("a/x.jpg", jpeg_of_quality(1));
  const auto index = open_index(folder.root());
  folder.add("a/x.jpg", jpeg_of_quality(90));
  CHECK(says(error_of([&] { convert_dataset(*index, folder.path() / "out", to_tar, null_events(), {}); }), "when the index was made"));
}

TEST_CASE("places that cannot be written to are refused before anything is written") {
  const DatasetFolder folder;
  folder.add("a/x.jpg", jpeg_of_quality(1));
  const auto error = [&](const fs::path& place) { return error_of([&] { convert(folder.root(), place, to_tar); }); };
  CHECK(says(error(folder.root()), "lies inside the dataset"));
  CHECK(says(error(folder.root() / "shards"), "lies inside the dataset"));
  CHECK(says(error(folder.path() / "no" / "where"), "there is no folder"));
  folder.write("taken/x", "1");
  CHECK(says(error(folder.path() / "taken"), "not empty"));
  CHECK(says(error(folder.path() / "taken" / "x"), "no folder"));
  CHECK(says(error("/proc/dsanalyze-out"), "/proc"));
  fs::create_directories(folder.path() / "empty");
  CHECK(error(folder.path() / "empty").empty());
  CHECK(is_empty_but_for(folder.path(), 3));
  CHECK_THROWS_AS(convert(folder.root(), folder.path() / "x", to_folder), UsageError);
}

TEST_CASE("a stop leaves nothing, and what a killed conversion left is removed by the next") {
  const DatasetFolder folder;
  add_photographs(folder);
  std::stop_source source;
  source.request_stop();
  const auto index = open_index(folder.root());
  CHECK_THROWS_AS(convert_dataset(*index, folder.path() / "out", to_tar, null_events(), source.get_token()), Interrupted);
  CHECK(is_empty_but_for(folder.path(), 1));
  folder.write(".out.converting/shard-000000.tar", "half");
  convert_dataset(*index, folder.path() / "out", to_tar, null_events(), {});
  CHECK(is_empty_but_for(folder.path(), 2));
  CHECK(content_digest(folder.path() / "out") == content_digest(folder.root()));
}
