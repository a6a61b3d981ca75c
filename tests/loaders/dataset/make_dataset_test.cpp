#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "../../base/sanitizers.hpp"
#include "../../base/texts.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/tools/dataset_make.hpp"
#include "loaders/dataset/tools/photograph_files.hpp"
#include "loaders/dataset/tools/sample_files.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::says;
using testing::text_of;

namespace {

namespace fs = std::filesystem;

/// A picture with detail at every scale, so that no two crops are alike.
std::string photograph(int width, int height, std::uint64_t seed) {
  RgbImage image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3)};
  RandomStream random(seed);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < 3; ++channel)
        image.row(y)[x * 3 + channel] = static_cast<std::uint8_t>(x / 7 * 31 + y / 5 * 17 + static_cast<int>(random.below(64)));
    }
  }
  JpegEncoder encoder;
  return text_of(encoder.encode(image, 90, ""));
}

/// A dataset folder with two small photographs beside it.
class MakeFolder : public DatasetFolder {
 public:
  MakeFolder() {
    write("photographs/a.jpg", photograph(900, 700, 1));
    write("photographs/b.jpg", photograph(500, 800, 2));
  }
  [[nodiscard]] MakeOptions options(std::uint64_t samples) const {
    MakeOptions options;
    options.samples = samples;
    options.photographs = {path() / "photographs"};
    return options;
  }
  [[nodiscard]] MakeReport make(std::uint64_t samples) const { return make_dataset(root(), options(samples), null_events(), {}); }
};

std::set<std::string> names_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

std::set<std::string> contents_below(const fs::path& folder) {
  std::set<std::string> contents;
  for (const std::string& file : names_below(folder)) {
    if (file != "README.md") contents.insert(read_file(folder / file));
  }
  return contents;
}

/// Asks for a stop when it has heard of progress a few times.
class StoppingEvents : public testing::KeptEvents {
 public:
  explicit StoppingEvents(int after) : m_left(after) {}
  void progress(const Progress& progress) override {
    if (says(progress.activity, "making samples") && --m_left == 0) source.request_stop();
  }
  std::stop_source source;

 private:
  std::atomic<int> m_left;
};

}  // namespace

TEST_CASE("made samples are whole JPEG files in class folders, no two alike, with the report's bytes" *
          doctest::skip(testing::races_are_found_elsewhere)) {
  const MakeFolder folder;
  const MakeReport report = folder.make(120);
  CHECK(report.samples == 120);
  CHECK(report.already_there == 0);
  const auto index = open_dataset(folder.root(), {}, null_events(), {});
  CHECK(index->size() == 120);
  CHECK(index->bytes() == report.bytes);
  CHECK(report.mean_bytes == doctest::Approx(static_cast<double>(report.bytes) / 120));
  CHECK(index->labels() == std::vector<std::string>{"n00000000", "n00000001", "n00000002"});
  CHECK(index->file_path((*index)[0].file) == "n00000000/00000000.jpg");
  CHECK(verify_dataset(*index, 2, null_events(), {}).failed == 0);
  CHECK(contents_below(folder.root()).size() == 120);
}

TEST_CASE("samples are a function of seed and number, whatever the threads") {
  const MakeFolder one;
  const MakeFolder two;
  const MakeFolder other;
  MakeOptions options = one.options(40);
  options.threads = 1;
  make_dataset(one.root(), options, null_events(), {});
  options.threads = 5;
  make_dataset(two.root(), options, null_events(), {});
  CHECK(contents_below(one.root()) == contents_below(two.root()));
  options.seed = 2;
  make_dataset(other.root(), options, null_events(), {});
  CHECK(contents_below(other.root()) != contents_below(two.root()));
}

TEST_CASE("a dataset that is there is kept, and grows") {
  const MakeFolder folder;
  (void)folder.make(30);
  const auto first = contents_below(folder.root());
  const MakeReport again = folder.make(30);
  CHECK(again.already_there == 30);
  CHECK(again.samples == 30);
  CHECK(contents_below(folder.root()) == first);
  const MakeReport more = folder.make(50);
  CHECK(more.already_there == 30);
  CHECK(more.samples == 50);
  const auto grown = contents_below(folder.root());
  CHECK(grown.size() == 50);
  CHECK(std::includes(grown.begin(), grown.end(), first.begin(), first.end()));
}

TEST_CASE("a sample that a power failure cut off is made again") {
  const MakeFolder folder;
  (void)folder.make(20);
  const fs::path file = folder.root() / "n00000000" / "00000007.jpg";
  const std::string whole = read_file(file);
  for (const std::string& broken : {std::string(), whole.substr(0, whole.size() / 2)}) {
    folder.add("n00000000/00000007.jpg", broken);
    CHECK(folder.make(20).already_there == 19);
    CHECK(read_file(file) == whole);
  }
}

TEST_CASE("an interrupt leaves whole samples and nothing else, and the same command goes on") {
  const MakeFolder stopped;
  const MakeFolder whole;
  (void)whole.make(100);
  StoppingEvents events(2);
  CHECK_THROWS_AS(make_dataset(stopped.root(), stopped.options(100), events, events.source.get_token()), Interrupted);
  const auto files = names_below(stopped.root());
  CHECK(files.size() < 100);
  for (const std::string& file : files) CHECK((file == "README.md" || file.ends_with(".jpg")));
  const MakeReport rest = stopped.make(100);
  CHECK(rest.already_there == files.size() - 1);
  CHECK(rest.already_there > 0);
  CHECK(contents_below(stopped.root()) == contents_below(whole.root()));
}

TEST_CASE("a full disk is said with path, what is there and what to do, and leaves nothing half" *
          doctest::skip(testing::races_are_found_elsewhere)) {
  const MakeFolder folder;
  std::atomic<int> left{20};
  const WriteSample full = [&](const fs::path& path, std::span<const std::byte> bytes) { return --left < 0 ? ENOSPC : write_sample(path, bytes); };
  MakeOptions options = folder.options(100);
  options.threads = 1;  // with more, a sample may still be on its way when the message counts
  const std::string error = error_of([&] { make_dataset_with(folder.root(), options, full, null_events(), {}); });
  CHECK(says(error, folder.root().string()));
  CHECK(says(error, "No space left on device"));
  CHECK(says(error, "20 samples ("));
  CHECK(says(error, "goes on where it stopped"));
  CHECK(names_below(folder.root()).size() == 21);
  CHECK(folder.make(100).already_there == 20);
}

TEST_CASE("a dataset larger than the free space is refused before it starts") {
  const MakeFolder folder;
  MakeOptions options = folder.options(0);
  options.bytes = Bytes{1} << 60;
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "free"));
  CHECK(names_below(folder.root()).empty());
}

TEST_CASE("bytes as a goal are reached within a sample or so, at the same sample whatever the threads" *
          doctest::skip(testing::races_are_found_elsewhere)) {
  const MakeFolder one;
  const MakeFolder two;
  MakeOptions options = one.options(0);
  options.bytes = 6'000'000;
  options.threads = 1;
  const MakeReport first = make_dataset(one.root(), options, null_events(), {});
  CHECK(static_cast<double>(first.bytes) == doctest::Approx(6e6).epsilon(0.05));
  options.threads = 4;
  const MakeReport second = make_dataset(two.root(), options, null_events(), {});
  CHECK(second.samples == first.samples);
  CHECK(second.bytes == first.bytes);
}

TEST_CASE("folders that hold something else are left alone") {
  const MakeFolder folder;
  folder.add("thesis.txt", "years of work");
  CHECK(says(error_of([&] { (void)folder.make(10); }), "thesis.txt"));
  CHECK(names_below(folder.root()) == std::set<std::string>{"thesis.txt"});
  folder.add("README.md", "# My thesis\n");
  CHECK(says(error_of([&] { (void)folder.make(10); }), "holds other files"));
  CHECK(read_file(folder.root() / "README.md") == "# My thesis\n");
  CHECK(says(error_of([&] { make_dataset(folder.root() / "thesis.txt", folder.options(1), null_events(), {}); }), "not a folder"));
}

TEST_CASE("a dataset of another seed, preset or photographs is not mixed in") {
  const MakeFolder folder;
  (void)folder.make(10);
  MakeOptions options = folder.options(10);
  options.seed = 9;
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "seed=9"));
  options = folder.options(10);
  options.preset = "openimages";
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "preset=openimages"));
  options = folder.options(10);
  options.photographs.push_back(folder.path() / "photographs" / "a.jpg");
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "made otherwise"));
}

TEST_CASE("presets are known by name, and a near name is suggested") {
  CHECK(make_presets() == std::vector<std::string>{"imagenet-1k", "openimages"});
  const MakeFolder folder;
  MakeOptions options = folder.options(1);
  options.preset = "imagenet-1";
  CHECK_THROWS_AS(make_dataset(folder.root(), options, null_events(), {}), UsageError);
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "did you mean 'imagenet-1k'"));
}

TEST_CASE("photographs that are missing or broken are named") {
  const MakeFolder folder;
  MakeOptions options = folder.options(1);
  options.photographs = {folder.path() / "nowhere.jpg"};
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "nowhere.jpg"));
  folder.write("broken.jpg", "no photograph");
  options.photographs = {folder.path() / "broken.jpg"};
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "cannot decode the photograph"));
  fs::create_directories(folder.path() / "empty");
  options.photographs = {folder.path() / "empty"};
  CHECK(says(error_of([&] { make_dataset(folder.root(), options, null_events(), {}); }), "holds no JPEG files"));
  CHECK(names_below(folder.root()).empty());
}

TEST_CASE("a photograph smaller than the samples is scaled up") {
  const DatasetFolder folder;
  folder.write("small.jpg", photograph(64, 48, 3));
  MakeOptions options;
  options.samples = 20;
  options.photographs = {folder.path() / "small.jpg"};
  CHECK(make_dataset(folder.root(), options, null_events(), {}).samples == 20);
  CHECK(contents_below(folder.root()).size() == 20);
}

TEST_CASE("both ways to write a sample give a whole file or none") {
  const DatasetFolder folder;
  const std::string content = "0123456789";
  const auto bytes = std::as_bytes(std::span(content));
  for (const auto& write : {write_sample, write_sample_by_rename}) {
    const fs::path file = folder.root() / "x.jpg";
    CHECK(write(file, bytes) == 0);
    CHECK(read_file(file) == content);
    CHECK(write(file, bytes.first(3)) == 0);
    CHECK(read_file(file) == "012");
    CHECK(write(folder.root() / "nowhere" / "x.jpg", bytes) == ENOENT);
    CHECK(names_below(folder.root()).size() == 1);
    fs::remove(file);
  }
}

TEST_CASE("temporary files of a killed writer are removed, those of a living one and others are not") {
  const DatasetFolder folder;
  folder.add("n00000000/.00000001.jpg.999999999.tmp");
  folder.add("n00000000/.00000002.jpg." + std::to_string(::getpid()) + ".tmp");
  folder.add("n00000000/.mine.tmp");
  folder.add("n00000000/.jpg.tmp");
  remove_left_over_files(folder.root());
  CHECK(names_below(folder.root()).size() == 3);
  CHECK_FALSE(fs::exists(folder.root() / "n00000000/.00000001.jpg.999999999.tmp"));
}

TEST_CASE("the version of an installed package is read from dpkg's list") {
  const DatasetFolder folder;
  folder.write("status",
               "Package: other\nVersion: 1\n\nPackage: photos\nStatus: install ok installed\nVersion: 20.04.0-2\n\nPackage: last\nVersion: 3\n");
  CHECK(installed_package_version("photos", folder.path() / "status") == "20.04.0-2");
  CHECK(installed_package_version("photo", folder.path() / "status").empty());
  CHECK(installed_package_version("photos", folder.path() / "nowhere").empty());
}

TEST_CASE("every photograph of the source is named with author and licence, as its package's copyright file gives them") {
  const PhotographSource& source = photograph_source();
  CHECK(source.photographs.size() == 15);
  const fs::path copyright = "/usr/share/doc/" + source.package + "/copyright";
  if (!fs::exists(copyright)) {
    MESSAGE("the package " << source.package << " is not installed: its copyright file was not compared");
    return;
  }
  const std::string text = read_file(copyright);
  for (const auto& photograph : source.photographs) {
    INFO(photograph.file);
    const std::size_t begin = text.find("Files: 16.04/" + photograph.file + "\n");
    REQUIRE(begin != std::string::npos);
    const std::string entry = text.substr(begin, text.find("\n\n", begin) - begin);
    CHECK(says(entry, photograph.author));
    CHECK(says(entry + "\n", "License: " + photograph.licence + "\n"));
  }
}

TEST_CASE("samples from the Debian photographs have ImageNet's mean size, and their README names who made them" * doctest::skip(testing::too_often)) {
  const PhotographSource& source = photograph_source();
  if (!fs::exists(source.folder / source.photographs.front().file)) {
    MESSAGE("the package " << source.package << " is not installed: nothing was made");
    return;
  }
  const DatasetFolder folder;
  MakeOptions options;
  options.samples = 300;
  const MakeReport report = make_dataset(folder.root(), options, null_events(), {});
  CHECK(report.mean_bytes >= 110e3);
  CHECK(report.mean_bytes <= 150e3);
  CHECK(contents_below(folder.root()).size() == 300);
  const std::string readme = read_file(folder.root() / "README.md");
  CHECK(says(readme, source.package));
  CHECK(says(readme, "CC-BY-SA-4.0 are adapted material"));
  for (const auto& photograph : source.photographs) {
    CHECK(says(readme, photograph.file));
    CHECK(says(readme, photograph.author));
  }
  CHECK(says(*contents_below(folder.root()).begin(), "cut from "));
}
