#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../../base/texts.hpp"
#include "../prep/jpeg_images.hpp"
#include "base/host/host.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
#include "opened_dataset.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::open_index;
using testing::says;
using testing::text_of;

namespace {

std::size_t marker_from(const std::string& file, std::size_t from, unsigned char marker) {
  const std::size_t place = file.find(std::string{'\xff', static_cast<char>(marker)}, from);
  REQUIRE(place != std::string::npos);
  return place;
}

std::string with_byte(std::string file, std::size_t place, int value) {
  file[place] = static_cast<char>(value);
  return file;
}

/// The first scan of a progressive file, which is whole, comes again: the same coefficients in an order that no encoder writes.
std::string with_first_scan_twice(const std::string& file) {
  const std::size_t scan = marker_from(file, 0, 0xDA);
  const std::size_t next = marker_from(file, scan + 2, 0xC4);  // the tables of the second one
  return file.substr(0, next) + file.substr(scan);
}

struct VerifiedFiles {
  std::uint64_t failed = 0;
  std::uint64_t patched = 0;
  std::vector<VerifyReport::Failure> patches;
};

VerifiedFiles verified(const std::map<std::string, std::string>& files) {
  const DatasetFolder folder;
  for (const auto& [name, content] : files) folder.add(name, content);
  const VerifyReport report = verify_dataset(*open_index(folder), 2, null_events(), {});
  return {report.failed, report.patched, report.patches};
}

}  // namespace

TEST_CASE("samples whose damaged image data libjpeg patches do not fail; they are counted and named, with its words") {
  const std::string good = text_of(test::encode_picture({}));
  const std::string restarts = text_of(test::encode_picture({.restart_interval = 3}));
  const std::size_t third = marker_from(restarts, marker_from(restarts, 0, 0xDA) + 2, 0xD3);
  const std::size_t noticed = good.size() / 2 + 29;  // of many a flipped byte the codes behind it read as others, which nothing gives away
  const VerifiedFiles found = verified({{"a/cut.jpg", good.substr(0, good.size() / 2) + "\xff\xd9"},
                                        {"a/flipped.jpg", with_byte(good, noticed, ~good[noticed])},
                                        {"a/good.jpg", good},
                                        {"a/restart.jpg", with_byte(restarts, third + 1, 0xD6)},
                                        {"b/ends.jpg", with_byte(good, noticed, ~good[noticed]).substr(0, good.size() - 9)}});
  CHECK(found.failed == 1);
  CHECK(found.patched == 3);
  REQUIRE(found.patches.size() == 3);
  CHECK(found.patches[0].path == "a/cut.jpg");
  CHECK(found.patches[0].cause == "Corrupt JPEG data: premature end of data segment");
  CHECK(found.patches[1].path == "a/flipped.jpg");
  CHECK(found.patches[1].cause == "Corrupt JPEG data: bad Huffman code");
  CHECK(found.patches[2].path == "a/restart.jpg");
  CHECK(found.patches[2].cause == "Corrupt JPEG data: found marker 0xd6 instead of RST3");
}

TEST_CASE("odd files whose image data is whole are not counted as patched, though libjpeg warns about them") {
  const std::string good = text_of(test::encode_picture({}));
  const std::size_t tables = marker_from(good, 2, 0xDB);
  const VerifiedFiles found =
      verified({{"behind.jpg", good + "more"},
                {"between.jpg", good.substr(0, tables) + "padding" + good.substr(tables)},
                {"progression.jpg", with_first_scan_twice(text_of(test::encode_picture({.scans = test::Scans::progressive})))},
                {"version.jpg", with_byte(good, 11, 9)}});
  CHECK(found.failed == 0);
  CHECK(found.patched == 0);
  CHECK(found.patches.empty());
}

TEST_CASE("an image that is checked after a damaged one is not taken for damaged") {
  const std::string good = text_of(test::encode_picture({}));
  ImageChecker images;
  for (const std::string& next : {good, std::string("this is no image"), std::string()}) {
    for (const bool damaged : {true, false}) {
      const std::string file = damaged ? good.substr(0, good.size() / 2) + "\xff\xd9" : next;
      const auto bytes = std::as_bytes(std::span(file));
      std::uint64_t pixels = 0;
      static_cast<void>(images.check({bytes.begin(), bytes.end()}, pixels));
      CHECK(images.patched_damage().empty() == !damaged);
    }
  }
}

TEST_CASE("verify decodes every sample and names those that do not decode") {
  const DatasetFolder folder;
  const auto good = test::encode_picture({});
  const auto progressive = test::encode_picture({.scans = test::Scans::progressive});
  folder.add("a/baseline.jpg", text_of(good));
  folder.add("a/cmyk.jpg", text_of(test::encode_picture({.inks = test::Inks::cmyk})));
  folder.add("a/empty.jpg", "");
  folder.add("a/grey.jpg", text_of(test::encode_picture({.inks = test::Inks::grey})));
  folder.add("a/huge.jpg", text_of(test::with_dimensions(good, 65000, 65000)));
  folder.add("a/png.jpg", "\x89PNG\r\n\x1a\n and so on");
  folder.add("a/progressive.jpg", text_of(progressive));
  folder.add("a/short.jpg", text_of(good).substr(0, good.size() / 2));
  folder.add("a/text.jpg", "this is no image");
  const auto index = open_index(folder);
  const VerifyReport report = verify_dataset(*index, 3, null_events(), {});
  CHECK(report.samples == 9);
  CHECK(report.bytes == index->bytes());
  CHECK(report.pixels == 4 * 160 * 120);
  CHECK(report.failed == 5);
  REQUIRE(report.failures.size() == 5);
  CHECK(report.failures[0].path == "a/empty.jpg");
  CHECK(says(report.failures[1].cause, "absurd dimensions"));
  CHECK(says(report.failures[2].cause, "PNG"));
  CHECK(says(report.failures[3].cause, "remature end"));
  CHECK(report.failures[4].cause == "not a JPEG, PNG or WebP file");
}

TEST_CASE("the content digest does not depend on threads and notices a changed byte") {
  const DatasetFolder folder;
  for (int number = 0; number < 100; ++number) folder.add(std::to_string(number) + ".jpg", text_of(test::encode_picture({.quality = 1 + number})));
  const auto index = open_index(folder);
  const std::string digest = verify_dataset(*index, 1, null_events(), {}).content_digest;
  CHECK(verify_dataset(*index, 5, null_events(), {}).content_digest == digest);
  std::string changed = text_of(test::encode_picture({.quality = 1}));
  changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
  folder.add("0.jpg", changed);
  CHECK(verify_dataset(*index, 5, null_events(), {}).content_digest != digest);
}

TEST_CASE("contents that differ behind equal names and sizes have one index digest and two content digests") {
  const DatasetFolder folder;
  const std::string one = text_of(test::encode_picture({}));
  for (int number = 0; number < 10; ++number) folder.add(std::to_string(number) + ".jpg", one);
  const auto index = open_index(folder);
  const auto before = sample_contents(*index, 1, {});
  REQUIRE(before.has_value());
  CHECK(before->samples == 10);
  CHECK(sample_contents(*index, 1, {})->digest == before->digest);
  for (const std::size_t at : {std::size_t{0}, one.size() / 2, one.size() - 1}) {
    std::string changed = one;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    folder.add("7.jpg", changed);
    CHECK(open_index(folder)->facts().digest == index->facts().digest);
    CHECK(sample_contents(*index, 1, {})->digest != before->digest);
  }
  folder.add("7.jpg", one);
  CHECK(sample_contents(*index, 1, {})->digest == before->digest);
  folder.add("7.jpg", "short");
  const auto unreadable = sample_contents(*index, 1, {});
  CHECK(unreadable->digest != before->digest);
  CHECK(unreadable->unreadable == 1);
  CHECK(says(unreadable->first_unreadable, "7.jpg: its file has 5 bytes"));
}

TEST_CASE("of a large dataset 64 samples are read, others with another seed, and at most 128 KiB of each") {
  const DatasetFolder folder;
  for (int number = 0; number < 500; ++number) folder.add(std::to_string(number) + ".jpg", "picture " + std::to_string(1000 + number));
  const auto index = open_index(folder);
  const auto first = sample_contents(*index, 1, {});
  CHECK(first->samples == 64);
  CHECK(sample_contents(*index, 2, {})->digest != first->digest);
  const DatasetFolder of_large;
  of_large.add("large.jpg", std::string(5'000'000, 'x'));
  const auto large = open_index(of_large);
  std::set<std::string> digests;
  for (std::uint64_t seed = 0; seed < 4; ++seed) digests.insert(sample_contents(*large, seed, {})->digest);
  CHECK(digests.size() == 4);  // another part each
}

TEST_CASE("a dataset of which nothing can be read is an error that names a sample, an emulated one has no contents, and a stop is obeyed") {
  const DatasetFolder folder;
  folder.add("x.jpg", "picture");
  const auto index = open_index(folder);
  std::stop_source source;
  source.request_stop();
  CHECK_THROWS_AS(static_cast<void>(sample_contents(*index, 1, source.get_token())), Interrupted);
  folder.add("x.jpg", "");
  CHECK(says(testing::message_of<Error>([&] { static_cast<void>(sample_contents(*index, 1, {})); }), "can be read: x.jpg: its file has 0 bytes"));
  DatasetSpec spec;
  spec.samples = 3;
  spec.mean_sample_bytes = 1000;
  spec.labels = 1;
  CHECK_FALSE(sample_contents(*make_emulated_index(spec, 0, 1, 1), 1, {}).has_value());
}

TEST_CASE("verify says when a file became shorter, and stops on request") {
  const DatasetFolder folder;
  folder.add("x.jpg", text_of(test::encode_picture({})));
  const auto index = open_index(folder);
  folder.add("x.jpg", "short");
  CHECK(says(verify_dataset(*index, 1, null_events(), {}).failures.at(0).cause, "fewer than when the index was made"));
  std::stop_source source;
  source.request_stop();
  CHECK_THROWS_AS(verify_dataset(*index, 1, null_events(), source.get_token()), Interrupted);
}

TEST_CASE("an emulated dataset has nothing to verify") {
  DatasetSpec spec;
  spec.name = "photos";
  spec.samples = 10;
  spec.mean_sample_bytes = 100;
  CHECK_THROWS_AS(verify_dataset(*make_emulated_index(spec, 0, 1, 1), 1, null_events(), {}), UsageError);
}

TEST_CASE("a sample that claims more than memory holds fails by its name, in verify and in a conversion, and the others do not") {
  const DatasetFolder folder;
  folder.add("good.jpg", text_of(test::encode_picture({})));
  folder.add("hole.jpg", text_of(test::encode_picture({})));
  std::filesystem::resize_file(folder.root() / "hole.jpg", std::uint64_t{1} << 40);
  const auto index = open_index(folder);
  const VerifyReport report = verify_dataset(*index, 2, null_events(), {});
  CHECK(report.failed == 1);
  CHECK(report.failures.at(0).path == "hole.jpg");
  CHECK(says(report.failures.at(0).cause, "1 TiB"));
  ConvertOptions options;
  options.format = ConvertFormat::npy;
  options.side = 8;
  CHECK(says(error_of([&] { convert_dataset(*index, folder.path() / "out", options, null_events(), {}); }), "hole.jpg"));
  options.bad = BadSamples::skip;
  CHECK(convert_dataset(*index, folder.path() / "out", options, null_events(), {}).samples == 1);
}

TEST_CASE("an array is verified piece by piece, with the digest of all of its bytes") {
  const DatasetFolder folder;
  std::string items(std::size_t{5} << 19, 'a');
  for (std::size_t place = 0; place < items.size(); ++place) items[place] = static_cast<char>(place * 2654435761U >> 13);
  const std::vector<std::uint64_t> shape{items.size()};
  folder.add("x.npy", make_npy_header("|u1", shape) + items);
  folder.add("y.npy", make_npy_header("|u1", shape) + items.substr(0, items.size() - 1));
  const VerifyReport report = verify_dataset(*open_index(folder), 1, null_events(), {});
  CHECK(report.failed == 1);
  CHECK(report.bytes == items.size());
  const XXH128_hash_t hash = XXH3_128bits(items.data(), items.size());
  CHECK(report.content_digest == fmt::format("{:016x}{:016x}", hash.high64, hash.low64));
}

TEST_CASE("rows that a header claims beyond what memory can index are an error that names the file") {
  const DatasetFolder folder;
  const std::vector<std::uint64_t> shape{4'000'000'000, 200};
  folder.add("x.npy", make_npy_header("|u1", shape));
  std::filesystem::resize_file(folder.root() / "x.npy", std::uint64_t{1} << 40);
  // On a server with memory for 160 GiB of index the rows are simply there.
  if (read_host_facts().memory_usable < Bytes{150} << 30)
    CHECK(says(testing::open_error(folder.root() / "x.npy"), "x.npy: its 4000000000 rows need"));
}
