#include "core/trace/access_trace.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

struct Recorded {
  CacheAccess access;
  CacheDecision decision;
  std::uint32_t epoch;
};

AccessTraceHeader some_header() {
  AccessTraceHeader header;
  header.samples = 1000;
  header.dataset_bytes = 5'000'000;
  header.digest = "0123456789abcdef0123456789abcdef";
  header.jobs = 2;
  header.cache = {ReplayPolicy::minio_cost_aware, 2'000'000, 0.25F};
  header.storage_cost = {0.008, 1e-8};
  return header;
}

std::vector<Recorded> some_accesses(std::size_t count) {
  RandomStream random(3);
  std::vector<Recorded> accesses(count);
  for (std::size_t i = 0; i < count; ++i) {
    accesses[i].access = {random.below(1000), random.below(Bytes{1} << 40), static_cast<std::uint32_t>(random.below(2)), 0};
    accesses[i].decision = static_cast<CacheDecision>(random.below(3));
    accesses[i].epoch = static_cast<std::uint32_t>(i / 700 + accesses[i].access.job);
  }
  return accesses;
}

void write_trace(const std::filesystem::path& path, const AccessTraceHeader& header, const std::vector<Recorded>& accesses) {
  AccessTraceWriter writer(path, header);
  for (const Recorded& each : accesses) writer.record({&each.access, 1}, {&each.decision, 1}, each.epoch);
  CHECK(writer.recorded() == accesses.size());
  writer.finish();
}

std::vector<Recorded> read_all(AccessTraceReader& reader) {
  std::vector<Recorded> all;
  AccessBlock block;
  while (reader.next(block)) {
    REQUIRE(reader.decisions().size() == block.accesses.size());
    for (std::size_t i = 0; i < block.accesses.size(); ++i)
      all.push_back({block.accesses[i], reader.decisions()[i], block.epoch_of_job[block.accesses[i].job]});
  }
  return all;
}

std::string failure_of(const TemporaryFolder& folder, const std::string& content) {
  folder.write("bad", content);
  try {
    AccessTraceReader reader(folder.path() / "bad");
    read_all(reader);
  } catch (const Error& error) {
    const std::string prefix = (folder.path() / "bad").native() + ": ";
    const std::string message = error.what();
    CHECK(message.starts_with(prefix));
    return message.substr(std::min(prefix.size(), message.size()));
  }
  return "";
}

template <typename Value>
std::string with(std::string content, std::size_t offset, Value value) {
  std::memcpy(content.data() + offset, &value, sizeof value);
  return content;
}

}  // namespace

TEST_CASE("a trace that was written is read again, access by access, as often as one likes") {
  const TemporaryFolder folder;
  for (const std::size_t count : {0U, 1U, 699U, 4096U, 50'000U}) {
    CAPTURE(count);
    const auto accesses = some_accesses(count);
    write_trace(folder.path() / "trace", some_header(), accesses);
    AccessTraceReader reader(folder.path() / "trace");
    CHECK(reader.header() == some_header());
    CHECK(reader.accesses() == count);
    CHECK(reader.key_count() == 1000);
    CHECK(reader.jobs() == 2);
    for (int pass = 0; pass < 2; ++pass) {
      const auto read = read_all(reader);
      REQUIRE(read.size() == count);
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(read[i].access.key == accesses[i].access.key);
        REQUIRE(read[i].access.bytes == accesses[i].access.bytes);
        REQUIRE(read[i].access.job == accesses[i].access.job);
        REQUIRE(read[i].access.priority == some_header().storage_cost.access_priority(accesses[i].access.bytes));
        REQUIRE(read[i].decision == accesses[i].decision);
        REQUIRE(read[i].epoch == accesses[i].epoch);
      }
      reader.rewind();
    }
    CHECK(read_file(folder.path() / "trace").size() == 128 + 16 * count + 24);
  }
}

TEST_CASE("a reader that stopped in the middle begins anew") {
  const TemporaryFolder folder;
  write_trace(folder.path() / "trace", some_header(), some_accesses(10'000));
  AccessTraceReader reader(folder.path() / "trace");
  AccessBlock block;
  REQUIRE(reader.next(block));
  REQUIRE(reader.next(block));
  reader.rewind();
  CHECK(read_all(reader).size() == 10'000);
}

TEST_CASE("what the recorded cache decided is counted by job and epoch") {
  const TemporaryFolder folder;
  AccessTraceHeader header = some_header();
  const std::vector<Recorded> accesses = {{{1, 10, 0, 0}, CacheDecision::admit, 0},  {{2, 20, 1, 0}, CacheDecision::bypass, 0},
                                          {{1, 10, 1, 0}, CacheDecision::hit, 0},    {{1, 10, 0, 0}, CacheDecision::hit, 1},
                                          {{2, 20, 0, 0}, CacheDecision::bypass, 1}, {{2, 20, 1, 0}, CacheDecision::hit, 1}};
  write_trace(folder.path() / "trace", header, accesses);
  AccessTraceReader reader(folder.path() / "trace");
  const CaseCounts counts = recorded_counts(reader);
  CHECK(counts.cache == header.cache);
  REQUIRE(counts.epochs.size() == 2);
  CHECK(counts.epochs[0].counts == AccessCounts{3, 1, 40, 30});
  CHECK(counts.epochs[1].counts == AccessCounts{3, 2, 50, 20});
  CHECK(counts.jobs[1][0].counts == AccessCounts{2, 1, 30, 20});
}

TEST_CASE("a trace without an end, cut anywhere, is refused, and where it ends is said") {
  const TemporaryFolder folder;
  write_trace(folder.path() / "trace", some_header(), some_accesses(20));
  const std::string whole = read_file(folder.path() / "trace");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const std::string failure = failure_of(folder, whole.substr(0, length));
    REQUIRE(failure.starts_with("at byte "));
    REQUIRE(failure.find(length < 152 ? "the file ends" : "torn") != std::string::npos);
  }
  CHECK(failure_of(folder, whole).empty());
  CHECK(failure_of(folder, whole + "x").find("torn") != std::string::npos);
  // A whole record is missing.
  CHECK(failure_of(folder, whole.substr(0, 128) + whole.substr(144)) ==
        "at byte 432: found an end after 20 accesses, expected one after 19: the file is torn");
}

TEST_CASE("a hostile trace is refused with the offset, what was found and what was expected") {
  const TemporaryFolder folder;
  write_trace(folder.path() / "trace", some_header(), some_accesses(20));
  const std::string whole = read_file(folder.path() / "trace");
  CHECK(failure_of(folder, with(whole, 0, 'x')).starts_with("at byte 0: found other bytes, expected \"dsatrace\""));
  CHECK(failure_of(folder, with(whole, 8, 2U)) == "at byte 8: found version 2, expected version 1");
  CHECK(failure_of(folder, with(whole, 12, 24U)).starts_with("at byte 12: "));
  CHECK(failure_of(folder, with(whole, 16, std::uint64_t{0})) == "at byte 16: found 0 samples, expected 1 to 4294967294");
  CHECK(failure_of(folder, with(whole, 16, UINT64_MAX)).starts_with("at byte 16: "));
  CHECK(failure_of(folder, with(whole, 24, UINT64_MAX)).starts_with("at byte 24: "));
  CHECK(failure_of(folder, with(whole, 32, 1025U)) == "at byte 32: found 1025 jobs, expected 1 to 1024");
  CHECK(failure_of(folder, with(whole, 36, 99U)) == "at byte 36: found cache policy number 99, expected a known one");
  CHECK(failure_of(folder, with(whole, 48, -1.0)).starts_with("at byte 48: "));
  CHECK(failure_of(folder, with(whole, 56, std::bit_cast<double>(UINT64_MAX))).starts_with("at byte 48: "));  // no number
  CHECK(failure_of(folder, with(whole, 64, -1.0F)).starts_with("at byte 64: "));
  CHECK(failure_of(folder, with(whole, 68, 1U)).starts_with("at byte 68: "));
  CHECK(failure_of(folder, with(whole, 72, '\n')) == "at byte 72: found a digest that is no text, expected letters and figures");
  CHECK(failure_of(folder, with(whole, 127, 'x')).starts_with("at byte 72: "));

  CHECK(failure_of(folder, with(whole, 128 + 16, 1000U)) == "at byte 144: found sample 1000, expected one of the dataset's 1000");
  CHECK(failure_of(folder, with(whole, 128 + 16 + 8, std::uint64_t{5} << 48)).starts_with("at byte 144: found job 5, expected one of 2"));
  CHECK(failure_of(folder, with(whole, 128 + 16 + 8, std::uint64_t{3} << 62)).starts_with("at byte 144: found decision 3"));
  CHECK(failure_of(folder, with(whole, 128 + 4, 7U)).find("after epoch 7, expected a job's epochs to rise") != std::string::npos);
  // Nothing wrong but that it is not what was written.
  CHECK(failure_of(folder, with(whole, 128, 999U ^ 1U)).find("the checksum is not that of the accesses") != std::string::npos);
  CHECK(failure_of(folder, with(whole, 128 + 320 + 8, std::uint64_t{21})).find("found an end after 21 accesses") != std::string::npos);
}

TEST_CASE("a trace that is not there, or no file, is said") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(AccessTraceReader(folder.path() / "none"), doctest::Contains("No such file"), Error);
  CHECK_THROWS_WITH_AS(AccessTraceReader("/dev/null"), doctest::Contains("not a file"), Error);
  CHECK_THROWS_WITH_AS(AccessTraceReader(folder.path()), doctest::Contains("not a file"), Error);
}

TEST_CASE("a trace that is not finished leaves no file, and one on a full disk says so") {
  const TemporaryFolder folder;
  {
    AccessTraceWriter writer(folder.path() / "trace", some_header());
    for (const Recorded& each : some_accesses(20'000)) writer.record({&each.access, 1}, {&each.decision, 1}, each.epoch);
  }
  CHECK(folder.entries() == 0);
  CHECK_THROWS_WITH_AS(AccessTraceWriter(folder.path() / "no" / "trace", some_header()), doctest::Contains("does not exist"), Error);

  AccessTraceWriter full("/dev/full", some_header());
  CHECK(full.failed());
  full.record({}, {}, 0);
  CHECK_THROWS_WITH_AS(full.finish(), "cannot write /dev/full: No space left on device", Error);
}

TEST_CASE("a writer refuses a header that no reader would take") {
  AccessTraceHeader header = some_header();
  header.digest = std::string(57, 'a');
  CHECK_THROWS_AS(AccessTraceWriter("/dev/null", header), Error);
  header = some_header();
  header.samples = 0;
  CHECK_THROWS_AS(AccessTraceWriter("/dev/null", header), Error);
}
