#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "fetch_engines.hpp"
#include "loaders/fetch/job_desk.hpp"

// How requests go through an engine, whatever is in the files.

namespace dsanalyze {
namespace {

using testing::fetch_options;
using testing::FileDataset;
using testing::real_engines;
using testing::reap_all;

std::shared_ptr<const DatasetIndex> small_files(FileDataset& data, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) data.add(std::to_string(i), testing::content_of(50 + i, i));
  return data.index();
}

TEST_CASE("an engine that reads holds no more than its places, all or nothing, until buffers come back in any order") {
  FileDataset data;
  const auto index = small_files(data, 8);
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    const auto engine = make(index, fetch_options(4));
    std::vector<FetchRequest> requests;
    for (SampleId i = 0; i < 8; ++i) requests.push_back(testing::request_of(*index, i));
    const auto three = std::span(requests).first(3);
    CHECK(engine->capacity() == 4);
    REQUIRE(engine->submit(three).ok());
    CHECK(engine->submit(three).code == StatusCode::busy);
    CHECK(engine->submit(std::span(requests).subspan(3, 1)).ok());
    CHECK(engine->free_places() == 0);
    auto done = reap_all(*engine, 4);
    REQUIRE(done.size() == 4);
    CHECK(engine->submit(std::span(requests).subspan(4, 1)).code == StatusCode::busy);  // lent still
    engine->release({&done[2].buffer, 1});
    CHECK(engine->free_places() == 1);
    CHECK(engine->submit(std::span(requests).subspan(4, 2)).code == StatusCode::busy);
    engine->release({&done[0].buffer, 1});
    CHECK(engine->submit(std::span(requests).subspan(4, 2)).ok());
    const auto more = reap_all(*engine, 2);
    REQUIRE(more.size() == 2);
    // What is lent stays as it was while others come and go.
    for (const std::size_t i : {1U, 3U}) CHECK(testing::text_of(done[i].bytes) == testing::content_of(50 + done[i].sample, done[i].sample));
  }
}

TEST_CASE("an engine refuses a group larger than the largest, however many places there are") {
  FileDataset data;
  const auto index = small_files(data, 1);
  for (const auto& make : real_engines()) {
    const auto engine = make(index, fetch_options(500));
    const std::vector<FetchRequest> requests(FetchEngine::largest_group + 1, testing::request_of(*index, 0));
    CHECK(engine->submit(requests).code == StatusCode::busy);
    CHECK(engine->submit(std::span(requests).first(FetchEngine::largest_group)).ok());
    CHECK(reap_all(*engine, FetchEngine::largest_group).size() == FetchEngine::largest_group);
  }
}

TEST_CASE("ten thousand tiny requests from four threads each end in one completion") {
  FileDataset data;
  const auto index = small_files(data, 50);
  constexpr std::uint64_t each = 2500;
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    FetchOptions options = fetch_options(40);
    options.concurrency = 16;
    const auto engine = make(index, options);
    std::vector<int> seen(4 * each);
    std::atomic<std::uint64_t> reaped{0}, wrong{0};
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::array<FetchCompletion, 16> done;
        for (std::uint64_t next = 0; reaped.load() < 4 * each;) {
          while (next < each) {
            const auto sample = static_cast<SampleId>((t * each + next) % 50);
            const FetchRequest request{t * each + next, sample, (*index)[sample].extent()};
            if (!engine->submit({&request, 1}).ok()) break;
            ++next;
          }
          const std::size_t count = engine->reap(done, system_timing().clock->after(0.01));
          for (const auto& completion : std::span(done).first(count)) {
            const bool right =
                completion.status.ok() && testing::text_of(completion.bytes) == testing::content_of(50 + completion.sample, completion.sample);
            wrong += right ? 0 : 1;
            ++seen[completion.tag];  // each by one thread alone, if each comes once
            engine->release({&completion.buffer, 1});
          }
          reaped += count;
        }
      });
    }
    threads.clear();
    CHECK(reaped.load() == 4 * each);
    CHECK(wrong.load() == 0);
    CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
    CHECK(engine->free_places() == engine->capacity());
  }
}

TEST_CASE("cancelling ends what was submitted, as cancelled where it had not begun, and leaves what comes later") {
  FileDataset data;
  const auto index = small_files(data, 60);
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    FetchOptions options = fetch_options(64);
    options.max_bytes_per_second = 100;  // the first needs half a second of the storage's time: the others wait for theirs
    const auto engine = make(index, options);
    std::vector<FetchRequest> requests;
    for (SampleId i = 0; i < 60; ++i) requests.push_back(testing::request_of(*index, i));
    REQUIRE(engine->submit(requests).ok());
    engine->cancel();
    const auto done = reap_all(*engine, 60);
    REQUIRE(done.size() == 60);
    std::set<std::uint64_t> tags;
    std::size_t cancelled = 0;
    for (const auto& completion : done) {
      tags.insert(completion.tag);
      if (completion.status.code == StatusCode::cancelled) {
        ++cancelled;
      } else {
        CHECK(completion.status.ok());
      }
      engine->release({&completion.buffer, 1});
    }
    CHECK(tags.size() == 60);
    CHECK(cancelled >= 50);
    CHECK(engine->free_places() == engine->capacity());
  }
  for (const auto& make : real_engines()) {
    const auto engine = make(index, fetch_options(4));
    engine->cancel();
    const FetchRequest request = testing::request_of(*index, 3);
    REQUIRE(engine->submit({&request, 1}).ok());
    const auto done = reap_all(*engine, 1);
    REQUIRE(done.size() == 1);
    CHECK(done[0].status.ok());
  }
}

TEST_CASE("requests are spaced to the rate that the user allows") {
  FileDataset data;
  for (std::uint32_t i = 0; i < 4; ++i) data.add(std::to_string(i), std::string(10'000, 'x'));
  const auto index = data.index();
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    FetchOptions options = fetch_options(8);
    options.max_bytes_per_second = 200'000;
    const auto engine = make(index, options);
    const Nanoseconds begun = system_timing().clock->now();
    testing::fetch_all(*engine, *index);
    // The fourth begins when the three before it have had their 50 ms each.
    CHECK(system_timing().clock->now() - begun >= to_nanoseconds(0.15));
  }
}

TEST_CASE("a slow rate spaces large samples whose turns lie hours ahead") {
  ManualTiming time;
  time.advance(to_nanoseconds(1));
  FetchOptions options = fetch_options(8);
  options.max_bytes_per_second = 1e6;
  JobDesk desk(options, time.timing());
  FetchJob job;
  job.request.extent.length = 400'000'000;
  for (int turn = 0; turn < 10; ++turn) CHECK(desk.turn_of(job) == to_nanoseconds(1 + 400.0 * turn));
}

TEST_CASE("an engine goes away with requests waiting, in flight, done and lent") {
  FileDataset data;
  const auto index = small_files(data, 60);
  std::vector<FetchRequest> requests;
  for (SampleId i = 0; i < 60; ++i) requests.push_back(testing::request_of(*index, i));
  for (const auto& make : real_engines()) {
    for (const double rate : {0.0, 50.0}) {
      FetchOptions options = fetch_options(64);
      options.max_bytes_per_second = rate;
      const Nanoseconds begun = system_timing().clock->now();
      {
        const auto engine = make(index, options);
        REQUIRE(engine->submit(requests).ok());
        std::array<FetchCompletion, 1> one;
        engine->reap(one, system_timing().clock->after(10));
      }
      CHECK(system_timing().clock->now() - begun < to_nanoseconds(30));  // at 50 bytes a second all would take over a minute
    }
  }
}

TEST_CASE("reaping returns at its deadline when nothing comes") {
  FileDataset data;
  const auto index = small_files(data, 1);
  for (const auto& make : real_engines()) {
    const auto engine = make(index, fetch_options(4));
    std::array<FetchCompletion, 1> one;
    CHECK(engine->reap(one, {0}) == 0);
    CHECK(engine->reap(one, system_timing().clock->after(0.01)) == 0);
  }
}

}  // namespace
}  // namespace dsanalyze
