#include "profile/attached/training_storage.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

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

TEST_CASE("an epoch of samples that are whole files holds no more than they do") {
  ReadsRecord reads;
  reads.samples = reads.opens = 9000;  // an epoch and a half of 6,000
  reads.files = 4200;                  // of parts of two epochs
  reads.file_bytes = 420'000'000;
  reads.bytes_per_sample = 100e3;
  LoaderRecord loader;
  loader.samples = 6000;
  CHECK(most_of_whole_files(reads, loader, 6000).value_or(0) == doctest::Approx(600e6));
  SUBCASE("a sampler that draws some of a larger dataset for each epoch") {
    loader.samples = 3000;
    CHECK_FALSE(most_of_whole_files(reads, loader, 3000));
  }
  SUBCASE("two ranks with a half each") {
    loader.samples = 3000;
    reads.files = 2900;
    reads.file_bytes = 290'000'000;
    CHECK(most_of_whole_files(reads, loader, 6000).value_or(0) == doctest::Approx(600e6));
  }
  SUBCASE("samples that are places of files, another one each time") {
    reads.file_bytes = 4'200'000'000;
    CHECK_FALSE(most_of_whole_files(reads, loader, 6000));
  }
  SUBCASE("two files for each") {
    reads.opens = 18000;
    CHECK_FALSE(most_of_whole_files(reads, loader, 6000));
  }
  SUBCASE("a stream") {
    loader.style = LoaderRecord::Style::iterable;
    CHECK_FALSE(most_of_whole_files(reads, loader, 6000));
  }
  SUBCASE("no epoch is known") { CHECK_FALSE(most_of_whole_files(reads, loader, 0)); }
}

TEST_CASE("storage is measured for a twentieth of the time budget, within limits") {
  CHECK(storage_seconds(100) == doctest::Approx(5));
  CHECK(storage_seconds(1) == doctest::Approx(0.5));
  CHECK(storage_seconds(10'000) == doctest::Approx(8));
}

TEST_CASE("the size of what is drawn with replacement follows from how much of it came again") {
  // Of 1000, 500 draws see 1000 (1 - e^-0.5) = 393.5 and 3000 draws 950.2.
  CHECK(drawn_from(500, 393.469) == doctest::Approx(1000).epsilon(1e-4));
  CHECK(drawn_from(3000, 950.213) == doctest::Approx(1000).epsilon(1e-4));
  CHECK(drawn_from(5000, 1000) == doctest::Approx(1007).epsilon(1e-3));
}
