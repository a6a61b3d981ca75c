#include "profile/attached/attached_reads.hpp"

#include <doctest/doctest.h>

#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"
#include "attached_rig.hpp"
#include "core/trace/access_trace.hpp"
#include "profile/attached/attached_profile.hpp"

using namespace dsanalyze;
using testing::finding_of;
using testing::finds;
using testing::says;

namespace {

constexpr Bytes file_size = 100'000;

/// Two workers that read files in turn in the one window of the run full, each in two requests; one sample a file.
class MadeUp {
 public:
  MadeUp() : launched(testing::prep_bound()) {
    PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
    full.by_rank[0].resize(1);
    full.by_rank[0].front().begin = to_nanoseconds(100);
    full.by_rank[0].front().end = to_nanoseconds(101);
    full.seen = {{0, to_nanoseconds(100), to_nanoseconds(101), 1600}};
    full.before->traced_bytes = 0;
    full.after->traced_bytes = full.after->requested_bytes;
    launched.accesses.emplace();
    launched.accesses->processes = {{11, "python3"}, {12, "python3"}};
  }

  std::uint32_t file(const std::string& path, Bytes bytes = file_size) {
    launched.accesses->files.push_back({path, bytes, 1, launched.accesses->files.size() + 1});
    return static_cast<std::uint32_t>(launched.accesses->files.size() - 1);
  }
  void access(std::uint32_t number, AccessKind kind, std::uint64_t offset, Bytes bytes, double seconds = 100.5, std::uint32_t process = 0) {
    launched.accesses->accesses.push_back({to_nanoseconds(seconds), offset, bytes, process, number, number + 1, 1'000'000, kind});
  }
  void read_whole(std::uint32_t number, double seconds = 100.5, std::uint32_t process = 0) {
    access(number, AccessKind::open, 0, 0, seconds, process);
    access(number, AccessKind::read, 0, file_size / 2, seconds, process);
    access(number, AccessKind::read, file_size / 2, file_size / 2, seconds, process);
  }
  [[nodiscard]] ProfileResult profile() const { return testing::profile_of(launched); }

  LaunchedTraining launched;
};

}  // namespace

TEST_CASE("what the loader reads is counted by sample, over the windows of the run full alone") {
  MadeUp made;
  for (int i = 0; i < 800; ++i) made.read_whole(made.file("/data/" + std::to_string(1000 + i)), 100.5, i % 2);
  made.read_whole(0, 99.9);
  made.read_whole(0, 101.1);
  const ProfileResult result = made.profile();
  REQUIRE(result.reads);
  const ReadsRecord& reads = *result.reads;
  CHECK(reads.samples == 1600);
  CHECK(reads.files == 800);
  CHECK(reads.file_bytes == 800 * file_size);
  CHECK(reads.bytes == 800 * file_size);
  CHECK(reads.requests == 1600);
  CHECK(reads.requests_per_sample == doctest::Approx(1));
  CHECK(reads.bytes_per_sample == doctest::Approx(50'000));
  CHECK(reads.mean_request_bytes == doctest::Approx(50'000));
  CHECK(*reads.ordered_fraction == doctest::Approx(0));
}

TEST_CASE("what a loader reads ahead between two epochs counts, and what a validation reads there does not") {
  MadeUp made;
  PhaseMeasurement& full = made.launched.training.phases[AttachPhase::full];
  StepWindow later = full.by_rank[0].front();
  later.begin = to_nanoseconds(101.5);
  later.end = to_nanoseconds(102.5);
  full.by_rank[0].push_back(later);
  // The first steps of an epoch are seen and not measured.
  full.seen = {{0, to_nanoseconds(99), to_nanoseconds(100), 160},
               {0, to_nanoseconds(100), to_nanoseconds(101), 1600},
               {0, to_nanoseconds(101.2), to_nanoseconds(101.5), 320},
               {0, to_nanoseconds(101.5), to_nanoseconds(102.5), 1600}};
  full.gaps[0].push_back({to_nanoseconds(101), to_nanoseconds(101.2)});
  const auto at = [&made](const std::string& path, double seconds) { made.read_whole(made.file(path), seconds); };
  at("/data/train/a", 100.5);
  at("/data/train/b", 101.1);  // between the epochs
  at("/data/train/c", 102);
  at("/data/train/e", 101.3);
  at("/data/val/d", 101.1);
  at("/data/train/f", 102.6);
  at("/data/train/g", 99.5);
  CHECK(made.profile().reads->files == 4);
  CHECK(made.profile().reads->seconds == doctest::Approx(2.5));
  CHECK(made.profile().reads->samples == 3520);
  CHECK(made.profile().reads->bytes_per_sample == doctest::Approx(4 * static_cast<double>(file_size) / 3520));
  // Another phase lies between the windows.
  full.gaps.clear();
  full.seen[2].start = full.seen[3].start = 1;
  CHECK(made.profile().reads->files == 2);
  CHECK(made.profile().reads->seconds == doctest::Approx(2));
  CHECK(made.profile().reads->samples == 3200);
}

TEST_CASE("files read one after the other by name are in order") {
  MadeUp made;
  for (int i = 0; i < 50; ++i) made.read_whole(made.file("/data/" + std::to_string(100 + i)));
  CHECK(*made.profile().reads->ordered_fraction == doctest::Approx(1));
}

TEST_CASE("libraries, Python's modules, the system's files and weights are no data") {
  for (const char* const path : {"/usr/lib/x86_64-linux-gnu/libz.so.1", "/home/u/venv/lib/python3.11/site-packages/a/data.bin", "/home/u/train.py",
                                 "/home/u/__pycache__/a.cpython-311.pyc", "/proc/self/stat", "/sys/devices/system/cpu/online", "/etc/hosts",
                                 "/dev/shm/torch_1_2_3", "/home/u/lib.so", "/home/u/weights.safetensors", "/opt/libx.so.2"})
    CHECK_FALSE(is_data(path));
  for (const char* const path :
       {"/data/a.jpg", "/home/u/lib/train/00001.tar", "/dev/shm/imagenet/a.jpg", "/run/media/u/disk/a.so-so", "/usr/data/a", "/dev/nvme0n1"})
    CHECK(is_data(path));
}

TEST_CASE("a file that was mapped before the run full is among the files, and named") {
  MadeUp made;
  made.access(made.file("/data/train.bin", 5'000'000), AccessKind::mapped, 0, 5'001'216, 3);
  const ProfileResult result = made.profile();
  CHECK(result.reads->files == 1);
  CHECK(result.reads->mapped_files == 1);
  CHECK(result.reads->mapped_bytes == 5'000'000);
  CHECK(result.reads->requests == 0);
  CHECK(says(finding_of(result, "reads-mapped").message, "/data/train.bin"));
}

TEST_CASE("a gap of more than 5 % to what the kernel counts is named, with what was not traced") {
  MadeUp made;
  made.read_whole(made.file("/data/a"));
  PhaseMeasurement& full = made.launched.training.phases[AttachPhase::full];
  made.launched.accesses->untraced = {{77, "busybox"}};
  CHECK(says(finding_of(made.profile(), "reads-untraced").message, "process 77 (busybox)"));
  CHECK_FALSE(finds(made.profile(), "reads-partly-seen"));
  full.after->traced_bytes = full.after->requested_bytes * 94 / 100;
  CHECK(says(finding_of(made.profile(), "reads-partly-seen").message, "process 77 (busybox)"));
  CHECK_FALSE(finds(made.profile(), "reads-untraced"));
  made.launched.accesses->untraced.clear();
  CHECK(says(finding_of(made.profile(), "reads-partly-seen").message, "is not known"));
  full.after->traced_bytes = full.after->requested_bytes * 96 / 100;
  CHECK_FALSE(finds(made.profile(), "reads-partly-seen"));
  made.launched.accesses->left_out = 7;  // of more calls than are kept
  made.launched.accesses->accesses.back().end = full.after->at - 1;
  CHECK(says(finding_of(made.profile(), "reads-partly-seen").message, "7 calls are not among"));
  made.launched.accesses->accesses.back().end = full.after->at + 1;  // What came later is none of this run's.
  CHECK_FALSE(finds(made.profile(), "reads-partly-seen"));
}

TEST_CASE("what was read survives being saved") {
  MadeUp made;
  made.read_whole(made.file("/data/a"));
  const ProfileResult result = made.profile();
  const ProfileResult again = profile_from_json(to_json(result), "the record");
  REQUIRE(again.reads);
  CHECK(again.reads->bytes == result.reads->bytes);
  CHECK(again.reads->requests_per_sample == result.reads->requests_per_sample);
  CHECK_FALSE(again.reads->ordered_fraction);
}

TEST_CASE("a training that was not traced has no reads") {
  MadeUp made;
  made.launched.accesses.reset();
  CHECK_FALSE(made.profile().reads);
}

TEST_CASE("the access trace has an item for each file, and an epoch for each pass over them") {
  const testing::TemporaryFolder folder;
  MadeUp made;
  for (int i = 0; i < 10; ++i) made.file("/data/" + std::to_string(i));
  for (int epoch = 0; epoch < 3; ++epoch)
    for (int i = 0; i < 10; ++i) {
      // Opened twice in a row, as a header is looked at first.
      made.access(static_cast<std::uint32_t>(i), AccessKind::read, 0, 100);
      made.launched.accesses->accesses.back().opening += static_cast<std::uint32_t>(1000 * epoch + 500);
      made.read_whole(static_cast<std::uint32_t>(i));
      made.launched.accesses->accesses.back().opening += static_cast<std::uint32_t>(1000 * epoch);
    }
  ProfileResult result;
  write_item_trace(made.launched, folder.path() / "trace", result);
  CHECK(result.findings.empty());
  AccessTraceReader reader(folder.path() / "trace");
  CHECK(reader.header().samples == 10);
  CHECK(reader.header().dataset_bytes == 10 * file_size);
  std::uint32_t last = 0;
  for (AccessBlock block; reader.next(block);) last = block.epoch_of_job[0];
  CHECK(last == 2);
}

TEST_CASE("an epoch of the access trace ends where its end was seen, and the first and last are parts") {
  const testing::TemporaryFolder folder;
  MadeUp made;
  for (int i = 0; i < 100; ++i) made.file("/data/" + std::to_string(i));
  std::uint32_t opening = 0;
  double time = 100;
  const auto end = [&] {
    EpochGap gap;
    gap.begin = to_nanoseconds(time += 0.05);
    made.launched.training.phases[AttachPhase::full].gaps[0].push_back(gap);
  };
  const auto read = [&](int from, int to) {
    time += 0.05;
    for (int i = from; i < to; ++i) {
      made.access(static_cast<std::uint32_t>(i), AccessKind::read, 0, file_size, time);
      made.launched.accesses->accesses.back().opening = ++opening;
    }
  };
  end();  // Before the first access: that one is in epoch 0 all the same.
  read(3, 100);
  end();
  read(0, 100);
  end();
  read(0, 20);
  ProfileResult result;
  write_item_trace(made.launched, folder.path() / "trace", result);
  AccessTraceReader reader(folder.path() / "trace");
  CHECK(reader.header().samples == 100);
  std::vector<std::size_t> read_in(3);
  for (AccessBlock block; reader.next(block);) read_in.at(block.epoch_of_job[0]) += block.accesses.size();
  CHECK(read_in == std::vector<std::size_t>{97, 100, 20});
}

TEST_CASE("a large file that is read in parts is an item for each block of 256 KiB") {
  const testing::TemporaryFolder folder;
  MadeUp made;
  constexpr Bytes shard = 10'000'000;
  const std::uint32_t number = made.file("/data/shard.tar", shard);
  for (std::uint64_t at = 0; at < 1'000'000; at += 100'000) made.access(number, AccessKind::positioned, at, 100'000);
  ProfileResult result;
  write_item_trace(made.launched, folder.path() / "trace", result);
  AccessTraceReader reader(folder.path() / "trace");
  CHECK(reader.header().samples == 4);
  CHECK(reader.header().dataset_bytes == Bytes{4} * (256 << 10));
  CHECK(reader.accesses() == 4);
}

TEST_CASE("where nothing was traced there is no access trace, and it is said why") {
  const testing::TemporaryFolder folder;
  MadeUp made;
  ProfileResult result;
  write_item_trace(made.launched, folder.path() / "trace", result);
  CHECK(says(finding_of(result, "trace-not-written").message, "read no file"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "trace"));
}
