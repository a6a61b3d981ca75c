#include <doctest/doctest.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../base/texts.hpp"
#include "dataset/npy_header.hpp"
#include "dataset_folder.hpp"
#include "dsanalyze/base/host.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "dsanalyze/loaders/dataset_convert.hpp"
#include "jpeg_images.hpp"
#include "opened_dataset.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::open_index;
using testing::says;
using testing::text_of;

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
