#include "profile/attached/training_storage.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "attached_rig.hpp"

using namespace dsanalyze;

namespace {

const std::vector<TimeSpan> always{{0, INT64_MAX}};

/// Files of which one process reads, each by an opening of its own unless said.
class MadeUpTrace {
 public:
  std::uint32_t file(const std::string& path) {
    trace.files.push_back({path, 10'000'000, 1, trace.files.size() + 1});
    return static_cast<std::uint32_t>(trace.files.size() - 1);
  }
  void read(std::uint32_t number, std::uint64_t offset, Bytes bytes, Nanoseconds at = 10, std::uint32_t opening = UINT32_MAX,
            AccessKind kind = AccessKind::read) {
    trace.accesses.push_back({at, offset, bytes, 0, number, opening == UINT32_MAX ? number : opening, 1000, kind});
  }
  [[nodiscard]] std::shared_ptr<const DatasetIndex> ranges(Bytes most = std::numeric_limits<Bytes>::max()) const {
    return read_ranges(trace, always, most);
  }

  AccessTrace trace;
};

}  // namespace

TEST_CASE("the calls of one opening that follow one another are one range, and a file that is read again is one range, too") {
  MadeUpTrace made;
  const auto a = made.file("/data/a");
  const auto b = made.file("/data/b");
  made.read(b, 0, 4096);
  made.read(a, 0, 100, 11);
  made.read(b, 4096, 60'000, 12);
  made.read(a, 100, 900, 13);
  made.read(b, 0, 64'096, 14, 99);  // opened anew
  const auto index = made.ranges();
  REQUIRE(index->size() == 2);
  CHECK(index->file_path((*index)[0].file) == "data/b");
  CHECK((*index)[0].offset == 0);
  CHECK((*index)[0].length == 64'096);
  CHECK((*index)[1].length == 1000);
  CHECK(index->facts().root == "/");
}

TEST_CASE("a stream is cut into ranges of a MiB, however large its calls are") {
  MadeUpTrace made;
  const auto shard = made.file("/data/shard.tar");
  for (int i = 0; i < 24; ++i) made.read(shard, static_cast<std::uint64_t>(i) * 131'072, 131'072, i);
  const auto index = made.ranges();
  REQUIRE(index->size() == 3);
  for (const IndexRecord& range : index->records()) CHECK(range.length == 1'048'576);
  made.read(made.file("/data/large"), 0, 2'500'000);
  CHECK(made.ranges()->size() == 6);
  CHECK(made.ranges()->bytes() == 3 * 1'048'576 + 2'500'000);
}

TEST_CASE("reads at random places of a file are ranges of their own, and a small gap is none") {
  MadeUpTrace made;
  const auto tokens = made.file("/data/tokens.bin");
  made.read(tokens, 8'000'000, 2048, 1, 1, AccessKind::positioned);
  made.read(tokens, 1'000'000, 2048, 2, 1, AccessKind::positioned);
  made.read(tokens, 1'004'000, 2048, 3, 1, AccessKind::positioned);
  made.read(tokens, 8'000'000, 2048, 4, 1, AccessKind::positioned);
  const auto index = made.ranges();
  REQUIRE(index->size() == 2);
  CHECK((*index)[0].length == 2048);
  CHECK((*index)[1].offset == 1'000'000);
  CHECK((*index)[1].length == 6048);
}

TEST_CASE("what is no data, was read at another time, or is too much is left out") {
  MadeUpTrace made;
  made.read(made.file("/usr/lib/libz.so"), 0, 1000);
  made.read(made.file("relative"), 0, 1000);
  made.read(made.file("/data/mapped"), 0, 1000, 10, UINT32_MAX, AccessKind::mapped);
  made.read(made.file("/data/early"), 0, 1000, 4);
  made.read(made.file("/data/a"), 0, 1000);
  made.read(made.file("/data/b"), 0, 1000);
  CHECK(read_ranges(made.trace, {{5, 20}}, 5000)->size() == 2);
  CHECK(read_ranges(made.trace, {{5, 20}}, 1500)->size() == 1);
  CHECK(read_ranges(made.trace, {}, 5000)->size() == 0);
}

namespace {

/// An epoch of 3,200 samples, of which the run full counted 320.
class MadeUpEpoch {
 public:
  MadeUpEpoch() : launched(testing::prep_bound()) {
    PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
    full.seen = {{0, 0, to_nanoseconds(2), 320}};
    launched.accesses.emplace();
    launched.accesses->processes = {{11, "python3"}};
  }

  /// `bytes` of a file of `file_bytes`, read for each of the samples.
  void read(const std::string& path, Bytes file_bytes, Bytes bytes) {
    auto& files = launched.accesses->files;
    auto known = std::ranges::find(files, path, &TracedFile::path);
    if (known == files.end()) known = files.insert(files.end(), {path, file_bytes, 1, files.size() + 1});
    const auto number = static_cast<std::uint32_t>(known - files.begin());
    launched.accesses->accesses.push_back({to_nanoseconds(0.5), 0, bytes, 0, number, number, 1000, AccessKind::read});
  }
  [[nodiscard]] std::optional<Bytes> bytes() const { return epoch_bytes(launched, testing::profile_of(launched)); }

  LaunchedTraining launched;
};

}  // namespace

TEST_CASE("an epoch reads what its samples do, also where a part of its files was seen, and no more than all of them hold") {
  MadeUpEpoch own_files;
  for (int i = 0; i < 320; ++i) own_files.read("/data/" + std::to_string(i), 100'000, 100'000);
  CHECK(own_files.bytes() == Bytes{3200} * 100'000);
  MadeUpEpoch overlapping;  // Windows of a file that are longer than what lies between their begins.
  for (int i = 0; i < 320; ++i) overlapping.read("/data/tokens", 20'000'000, 100'000);
  CHECK(overlapping.bytes() == Bytes{20'000'000});
}

TEST_CASE("without a loader's length an epoch is as long as the last one that was seen to end, and else it is not known") {
  MadeUpEpoch stream;
  for (int i = 0; i < 320; ++i) stream.read("/data/" + std::to_string(i), 100'000, 100'000);
  stream.launched.training.loader->samples.reset();
  CHECK_FALSE(stream.bytes());
  PhaseMeasurement& full = stream.launched.training.phases[AttachPhase::full];
  full.gaps[0].push_back({to_nanoseconds(5), to_nanoseconds(5.01)});
  full.pass_steps = 40;
  REQUIRE(stream.bytes());
  CHECK(static_cast<double>(*stream.bytes()) == doctest::Approx(40 * 32 * 100e3).epsilon(0.02));
}

TEST_CASE("storage is measured for a twentieth of the time budget, within limits") {
  CHECK(storage_seconds(100) == doctest::Approx(5));
  CHECK(storage_seconds(1) == doctest::Approx(0.5));
  CHECK(storage_seconds(10'000) == doctest::Approx(8));
}
