#include "dsanalyze/loaders/fetch_engine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <numeric>

#include "made_dataset.hpp"

namespace dsanalyze {
namespace {

using testing::FileDataset;

FetchOptions options(std::size_t capacity) {
  FetchOptions fetch;
  fetch.concurrency = 3;
  fetch.capacity = capacity;
  return fetch;
}

/// Reaps until `count` completions came or ten seconds passed.
std::vector<FetchCompletion> reap_all(FetchEngine& engine, std::size_t count) {
  std::vector<FetchCompletion> all;
  const Deadline deadline = system_timing().clock->after(10);
  std::array<FetchCompletion, 8> some;
  while (all.size() < count && system_timing().clock->now() < deadline.at) {
    const std::size_t n = engine.reap(some, deadline);
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return all;
}

TEST_CASE("the thread engine delivers all bytes of every extent, buffered and direct") {
  FileDataset data;
  std::map<std::uint64_t, std::string> expected;
  for (std::uint32_t i = 0; i < 20; ++i) {
    std::string content(1 + i * 977, '\0');
    for (std::size_t b = 0; b < content.size(); ++b) content[b] = static_cast<char>(b * (i + 3));
    data.add("n" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg", content);
    expected[i] = content;
  }
  const auto index = data.index();
  for (const ReadMode mode : {ReadMode::buffered, ReadMode::direct}) {
    FetchOptions fetch = options(32);
    fetch.read_mode = mode;
    const auto engine = make_thread_engine(index, fetch, system_timing());
    for (std::uint32_t i = 0; i < 20; ++i) {
      const FetchRequest request{i, i, (*index)[i].extent()};
      REQUIRE(engine->submit({&request, 1}).ok());
    }
    Bytes total = 0;
    for (const auto& completion : reap_all(*engine, 20)) {
      if (mode == ReadMode::direct && completion.status.code == StatusCode::io) continue;  // a filesystem without direct I/O
      REQUIRE(completion.status.ok());
      CHECK(testing::text_of(completion.bytes) == expected[completion.tag]);
      total += completion.bytes.size();
      engine->release({&completion.buffer, 1});
    }
    CHECK(engine->free_places() == engine->capacity());
    if (mode == ReadMode::buffered) CHECK(engine->requested() == total);
    if (mode == ReadMode::direct) CHECK(engine->requested() % 4096 == 0);
  }
}

TEST_CASE("an extent inside a larger file is read at its offset, whatever the alignment") {
  FileDataset data;
  std::string content(20000, '\0');
  for (std::size_t b = 0; b < content.size(); ++b) content[b] = static_cast<char>(b % 251);
  data.add("shard", content);
  data.add_record("shard", 4097, 9001);
  const auto index = data.index();
  for (const ReadMode mode : {ReadMode::buffered, ReadMode::direct}) {
    FetchOptions fetch = options(4);
    fetch.read_mode = mode;
    const auto engine = make_thread_engine(index, fetch, system_timing());
    const FetchRequest request{1, 1, (*index)[1].extent()};
    REQUIRE(engine->submit({&request, 1}).ok());
    const auto done = reap_all(*engine, 1);
    REQUIRE(done.size() == 1);
    if (done[0].status.code != StatusCode::io) CHECK(testing::text_of(done[0].bytes) == content.substr(4097, 9001));
  }
}

TEST_CASE("a file that is gone and a file that is too short each end in one completion that says so") {
  FileDataset data;
  data.add("short.jpg", "abc");
  data.add_record("short.jpg", 0, 100);
  data.add_record("gone.jpg", 0, 100);
  const auto index = data.index();
  const auto engine = make_thread_engine(index, options(8), system_timing());
  for (std::uint32_t i = 0; i < 3; ++i) {
    const FetchRequest request{i, i, (*index)[i].extent()};
    REQUIRE(engine->submit({&request, 1}).ok());
  }
  std::map<std::uint64_t, StatusCode> codes;
  for (const auto& completion : reap_all(*engine, 3)) codes[completion.tag] = completion.status.code;
  CHECK(codes == std::map<std::uint64_t, StatusCode>{{0, StatusCode::ok}, {1, StatusCode::corrupt}, {2, StatusCode::not_found}});
}

TEST_CASE("an engine refuses what it has no place for, all or nothing, until buffers come back") {
  ManualTiming time;
  const auto engine = make_null_engine(options(4), time.timing());
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
  const auto engine = make_emulated_engine(nullptr, options(8), hdd, device, time.timing());
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
  StorageDeviceState device;
  const StorageDeviceSpec slow{1e9, to_nanoseconds(0.02), 1};
  const auto engine = make_emulated_engine(make_thread_engine(index, options(4), system_timing()), options(4), slow, device, system_timing());
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

}  // namespace
}  // namespace dsanalyze
