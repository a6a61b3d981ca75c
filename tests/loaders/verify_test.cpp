#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "dataset_folder.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "jpeg_images.hpp"
#include "opened_dataset.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
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
