#include "loaders/fetch/fetch_engine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "fetch_engines.hpp"
#include "loaders/fetch/file_access.hpp"

namespace dsanalyze {
namespace {

using testing::fetch_all;
using testing::fetch_options;
using testing::FileDataset;
using testing::real_engines;
using testing::reap_all;

TEST_CASE("an engine delivers all bytes of every file, buffered and direct, whatever becomes of the pages") {
  FileDataset data;
  std::vector<std::string> contents;
  for (std::uint32_t i = 0; i < 40; ++i) {
    contents.push_back(testing::content_of(i % 5 == 4 ? 4096 * i : 1 + i * 977, i));
    data.add("n" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", contents.back());
  }
  const auto index = data.index();
  for (const auto& make : real_engines()) {
    for (const ReadMode mode : {ReadMode::buffered, ReadMode::direct}) {
      for (const PageCacheUse page_cache : {PageCacheUse::keep, PageCacheUse::drop}) {
        CAPTURE(make.name);
        CAPTURE(mode == ReadMode::direct);
        FetchOptions options = fetch_options(7);
        options.read_mode = mode;
        options.page_cache = page_cache;
        const auto engine = make(index, options);
        const auto fetched = fetch_all(*engine, *index);
        if (mode == ReadMode::direct && fetched.at(0).status.code == StatusCode::io) continue;  // a filesystem without direct I/O
        for (const auto& [sample, what] : fetched) {
          REQUIRE(what.status.ok());
          REQUIRE(what.bytes == contents[sample]);
        }
        if (mode == ReadMode::buffered) CHECK(engine->requested() == index->bytes());
        if (mode == ReadMode::direct) CHECK(engine->requested() % 4096 == 0);
      }
    }
  }
}

TEST_CASE("a direct read is counted in whole blocks, and at a file's end in the filesystem's own, which are what storage delivers") {
  CHECK(direct_bytes(0, 1500, ReadEnd::at_file_end, 1024) == 2048);
  CHECK(direct_bytes(0, 1500, ReadEnd::at_file_end, 4096) == 4096);
  CHECK(direct_bytes(0, 1500, ReadEnd::within_file, 1024) == 4096);
  CHECK(direct_bytes(5000, 9000, ReadEnd::at_file_end, 1024) == 9216 - 4096);
  CHECK(direct_bytes(4096, 8192, ReadEnd::at_file_end, 1024) == 4096);
}

TEST_CASE("an engine delivers every sample of files that hold many, more files than it keeps open, at any alignment") {
  FileDataset data;
  std::vector<std::string> contents;
  for (std::uint32_t shard = 0; shard < 100; ++shard) {
    std::vector<std::string> samples;
    for (std::uint32_t i = 0; i < 6; ++i) samples.push_back(testing::content_of(1 + (shard * 131 + i * 3571) % 20'000, shard * 6 + i));
    contents.insert(contents.end(), samples.begin(), samples.end());
    data.add_shard("shard" + std::to_string(shard), samples);
  }
  const auto index = data.index();
  for (const auto& make : real_engines()) {
    for (const ReadMode mode : {ReadMode::buffered, ReadMode::direct}) {
      for (const ReadAhead read_ahead : {ReadAhead::off, ReadAhead::sequential}) {
        for (const PageCacheUse page_cache : {PageCacheUse::keep, PageCacheUse::drop}) {
          CAPTURE(make.name);
          FetchOptions options = fetch_options(20);
          options.concurrency = 16;
          options.read_mode = mode;
          options.read_ahead = read_ahead;
          options.page_cache = page_cache;
          const auto engine = make(index, options);
          const auto fetched = fetch_all(*engine, *index);
          if (mode == ReadMode::direct && fetched.at(0).status.code == StatusCode::io) continue;
          for (const auto& [sample, what] : fetched) {
            REQUIRE(what.status.ok());
            REQUIRE(what.bytes == contents[sample]);
          }
        }
      }
    }
  }
}

TEST_CASE("samples of one file are delivered while it is being opened for the first of them") {
  FileDataset data;
  std::vector<std::string> samples;
  for (std::uint32_t i = 0; i < 64; ++i) samples.push_back(testing::content_of(100 + i, i));
  data.add_shard("shard", samples);
  const auto index = data.index();
  std::vector<FetchRequest> requests;
  for (SampleId i = 0; i < 64; ++i) requests.push_back(testing::request_of(*index, i));
  for (const auto& make : real_engines()) {
    FetchOptions options = fetch_options(64);
    options.concurrency = 64;
    const auto engine = make(index, options);
    REQUIRE(engine->submit(requests).ok());
    const auto done = reap_all(*engine, 64);
    REQUIRE(done.size() == 64);
    for (const auto& completion : done) {
      REQUIRE(completion.status.ok());
      REQUIRE(testing::text_of(completion.bytes) == samples[completion.sample]);
    }
  }
}

TEST_CASE("a sample much larger than all before it arrives whole, and the small ones after it") {
  FileDataset data;
  std::vector<std::string> contents;
  for (const std::size_t bytes :
       {std::size_t{100}, std::size_t{40} << 20, std::size_t{5} << 20, std::size_t{3}, std::size_t{41} << 20, std::size_t{70'000}}) {
    contents.push_back(testing::content_of(bytes, bytes));
    data.add(std::to_string(bytes), contents.back());
  }
  const auto index = data.index();
  for (const auto& make : real_engines()) {
    const auto engine = make(index, fetch_options(2));
    for (const auto& [sample, what] : fetch_all(*engine, *index)) {
      REQUIRE(what.status.ok());
      CHECK((what.bytes == contents[sample]));
    }
  }
}

TEST_CASE("an engine refuses what it has no place for, all or nothing, until buffers come back") {
  ManualTiming time;
  const auto engine = make_null_engine(fetch_options(4), time.timing());
  std::array<FetchRequest, 3> three{FetchRequest{0, 0, {0, 10, 0}}, FetchRequest{1, 1, {0, 10, 0}}, FetchRequest{2, 2, {0, 10, 0}}};
  CHECK(engine->submit(three).ok());
  CHECK(engine->submit(three).code == StatusCode::busy);
  CHECK(engine->free_places() == 1);
  std::array<FetchCompletion, 3> done;
  REQUIRE(engine->reap(done, {time.now()}) == 3);
  CHECK(engine->submit(three).code == StatusCode::busy);
  engine->release({&done[0].buffer, 1});
  engine->release({&done[1].buffer, 1});
  CHECK(engine->submit(three).ok());
}

TEST_CASE("an emulated disk completes each request when its recurrence says, not before") {
  ManualTiming time;
  time.advance(nanoseconds_per_second);
  StorageDeviceState device;
  const StorageDeviceSpec hdd{150e6, to_nanoseconds(0.008), 1};
  const auto engine = make_emulated_engine(nullptr, fetch_options(8), hdd, device, time.timing());
  const Nanoseconds begun = time.now();
  std::array<FetchRequest, 2> two{FetchRequest{0, 0, {0, 150'000, 0}}, FetchRequest{1, 1, {0, 150'000, 0}}};
  REQUIRE(engine->submit(two).ok());
  std::array<FetchCompletion, 2> done;
  CHECK(engine->reap(done, {begun + to_nanoseconds(0.0089)}) == 0);
  REQUIRE(engine->reap(done, {begun + nanoseconds_per_second}) == 1);
  CHECK(done[0].done_at - begun == to_nanoseconds(0.009));  // 8 ms + 150 kB / 150 MB/s
  CHECK(time.now() >= done[0].done_at);
  REQUIRE(engine->reap(done, {begun + nanoseconds_per_second}) == 1);
  CHECK(done[0].done_at - begun == to_nanoseconds(0.018));
  CHECK(done[0].bytes.size() == 150'000);
}

TEST_CASE("an emulated disk over a real folder delivers the real bytes, delayed") {
  FileDataset data;
  data.add("a.jpg", "the real bytes");
  const auto index = data.index();
  const StorageDeviceSpec slow{1e9, to_nanoseconds(0.02), 1};
  for (const auto& make : real_engines()) {
    StorageDeviceState device;
    const auto engine = make_emulated_engine(make(index, fetch_options(4)), fetch_options(4), slow, device, system_timing());
    const FetchRequest request{5, 0, (*index)[0].extent()};
    const Nanoseconds begun = system_timing().clock->now();
    REQUIRE(engine->submit({&request, 1}).ok());
    const auto done = reap_all(*engine, 1);
    REQUIRE(done.size() == 1);
    CHECK(done[0].tag == 5);
    CHECK(testing::text_of(done[0].bytes) == "the real bytes");
    CHECK(done[0].done_at - begun >= to_nanoseconds(0.02));
    CHECK(system_timing().clock->now() >= done[0].done_at);
  }
}

}  // namespace
}  // namespace dsanalyze
