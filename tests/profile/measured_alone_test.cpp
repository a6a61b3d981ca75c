#include <doctest/doctest.h>

#include <filesystem>
#include <stop_token>
#include <string>

#include "../base/temporary_folder.hpp"
#include "../loaders/prep/jpeg_images.hpp"
#include "attached_rig.hpp"
#include "base/error.hpp"
#include "profile/attached/own_prep.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

/// A training that read whole files, each once, in the one window of the run full.
class ReadFiles {
 public:
  ReadFiles() : launched(testing::prep_bound()) {
    PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
    full.by_rank[0].resize(1);
    full.by_rank[0].front().begin = to_nanoseconds(100);
    full.by_rank[0].front().end = to_nanoseconds(101);
    full.seen = {{0, to_nanoseconds(100), to_nanoseconds(101), 1600}};
    launched.training.picture = {{32, 32}};
    launched.accesses.emplace();
    launched.accesses->processes = {{11, "python3"}};
    result.loader.emplace();
    result.reads.emplace();
    result.hot = {{"default_loader", "", 0, 0.7, {}}, {"RandomResizedCrop", "", 0, 0.27, {}}, {"train.py:9 noise", "", 0, 0.03, {}}};
  }

  void read(const std::filesystem::path& path) {
    const auto number = static_cast<std::uint32_t>(launched.accesses->files.size());
    launched.accesses->files.push_back({path.native(), std::filesystem::file_size(path), 1, number + 1U});
    launched.accesses->accesses.push_back({to_nanoseconds(100.5), 0, 10, 0, number, number, 1000, AccessKind::read});
    result.reads->samples = result.reads->opens = result.reads->files = launched.accesses->files.size();
  }
  void measure(const std::stop_token& stop = {}) { measure_own_prep(launched, 0.6, HostFacts{}, result, null_events(), stop, system_timing()); }

  LaunchedTraining launched;
  ProfileResult result;
};

void write_images(const TemporaryFolder& folder, ReadFiles& made, int count) {
  const std::vector<std::byte> image = test::encode_picture({});
  for (int number = 0; number < count; ++number) {
    const std::string name = std::to_string(number) + ".jpg";
    folder.write(name, std::string(reinterpret_cast<const char*>(image.data()), image.size()));
    made.read(folder.path() / name);
  }
}

}  // namespace

TEST_CASE("dsanalyze's own prep is measured on the image files that a training read, and what it leaves out is named") {
  const TemporaryFolder folder;
  ReadFiles made;
  write_images(folder, made, 20);
  made.measure();
  REQUIRE(made.result.own_prep);
  const OwnPrepRecord& prep = *made.result.own_prep;
  CHECK(prep.images == 20);
  CHECK(prep.crop_size == 32);
  CHECK(prep.crop == OwnPrepRecord::Crop::random_resized);
  CHECK(prep.samples_per_s > 0);
  CHECK(prep.left_out == std::vector<std::string>{"train.py:9 noise"});
}

TEST_CASE("dsanalyze's own prep is not measured where one of the files is no image, where they are few, or one is damaged") {
  const TemporaryFolder folder;
  ReadFiles few;
  write_images(folder, few, 8);
  few.measure();
  CHECK_FALSE(few.result.own_prep);
  ReadFiles mixed;
  write_images(folder, mixed, 20);
  folder.write("labels", "a text");
  mixed.read(folder.path() / "labels");
  mixed.measure();
  CHECK_FALSE(mixed.result.own_prep);
  ReadFiles damaged;
  write_images(folder, damaged, 20);
  std::filesystem::resize_file(folder.path() / "7.jpg", 200);
  damaged.measure();
  CHECK_FALSE(damaged.result.own_prep);
}

TEST_CASE("measuring dsanalyze's own prep ends when asked to stop") {
  const TemporaryFolder folder;
  ReadFiles made;
  write_images(folder, made, 20);
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(made.measure(stop.get_token()), Interrupted);
  CHECK_FALSE(made.result.own_prep);
}
