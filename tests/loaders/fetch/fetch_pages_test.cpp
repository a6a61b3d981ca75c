#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <thread>

#include "fetch_engines.hpp"
#include "loaders/fetch/storage_meter.hpp"
#include "loaders/fetch/uring_worker.hpp"

// What an engine has the device read, and what it leaves in the page cache.

namespace dsanalyze {
namespace {

using testing::fetch_options;
using testing::FileDataset;
using testing::real_engines;

constexpr std::size_t shard_samples = 300;
constexpr std::size_t shard_sample_bytes = 61'000;  // never at a page's edge
/// Pages that a core has just taken up lie in a batch of its own, from which another core cannot drop them: on a busy machine some are left.
constexpr double left_in_batches = 0.03;

std::shared_ptr<const DatasetIndex> shards(FileDataset& data) {
  for (const char* name : {"a", "b"}) {
    std::vector<std::string> contents;
    for (std::size_t i = 0; i < shard_samples / 2; ++i) contents.push_back(testing::content_of(shard_sample_bytes, i));
    data.add_shard(name, contents);
  }
  return data.index();
}

double fraction_resident(const DatasetIndex& index) { return page_cache_residency(index, 100).fraction(); }

/// Drops again what another core still has in a batch, until that one has gone on.
void drop_all(const DatasetIndex& index) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    drop_from_page_cache(index, {});
    if (fraction_resident(index) == 0) return;
    system_timing().waiter->sleep_until(system_timing().clock->after(0.01).at);
  }
}

/// Reads cold samples one group after another; bytes that came from the device, and bytes that the samples have.
struct Cold {
  Bytes read = 0;
  Bytes asked = 0;
};
Cold read_cold(FetchEngine& engine, const DatasetIndex& index, std::span<const SampleId> order) {
  drop_all(index);
  const StorageMeter meter(index.facts().root);
  const Bytes before = meter.process_bytes().value_or(0);
  Cold cold;
  for (std::size_t next = 0; next < order.size();) {
    std::vector<FetchRequest> group;
    for (; next < order.size() && group.size() < 8; ++next) group.push_back(testing::request_of(index, order[next]));
    REQUIRE(engine.submit(group).ok());
    for (const auto& completion : testing::reap_all(engine, group.size())) {
      REQUIRE(completion.status.ok());
      cold.asked += completion.bytes.size();
      engine.release({&completion.buffer, 1});
    }
  }
  cold.read = meter.process_bytes().value_or(0) - before;
  return cold;
}

/// False where reading what is not in memory is not counted: a filesystem that tells nothing, or that lies in memory.
bool reads_are_counted(const std::shared_ptr<const DatasetIndex>& index) {
  const auto engine = make_thread_engine(index, fetch_options(8), system_timing());
  const std::vector<SampleId> one{0};
  const Cold cold = read_cold(*engine, *index, one);
  if (cold.read == 0) MESSAGE("nothing counts what is read here");
  return cold.read > 0;
}

TEST_CASE("random extents cost no more bytes than their pages, and leave nothing in the page cache") {
  FileDataset data;
  const auto index = shards(data);
  if (!reads_are_counted(index)) return;
  std::vector<SampleId> order(shard_samples);
  for (std::size_t i = 0; i < shard_samples; ++i) order[i] = static_cast<SampleId>(i);
  std::shuffle(order.begin(), order.end(), std::minstd_rand(7));
  order.resize(60);
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    const auto engine = make(index, fetch_options(8));
    const Cold cold = read_cold(*engine, *index, order);
    constexpr std::size_t pages_of_each = (shard_sample_bytes + 4094) / 4096 + 1;  // wherever in a page it begins
    const auto pages = static_cast<double>(order.size() * pages_of_each * 4096);
    CHECK(static_cast<double>(cold.read) <= 1.01 * pages);
    CHECK(static_cast<double>(cold.read) >= 0.99 * static_cast<double>(cold.asked));
    CHECK(fraction_resident(*index) < left_in_batches);
  }
}

TEST_CASE("reading a shard in order reads each page of it once, and drops it behind") {
  FileDataset data;
  const auto index = shards(data);
  if (!reads_are_counted(index)) return;
  std::vector<SampleId> order(shard_samples);
  for (std::size_t i = 0; i < shard_samples; ++i) order[i] = static_cast<SampleId>(i);
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    FetchOptions options = fetch_options(8);
    options.read_ahead = ReadAhead::sequential;
    const auto engine = make(index, options);
    for (int epoch = 0; epoch < 2; ++epoch) {
      const Cold cold = read_cold(*engine, *index, order);
      CHECK(static_cast<double>(cold.read) <= 1.02 * static_cast<double>(cold.asked));
      CHECK(static_cast<double>(cold.read) >= 0.99 * static_cast<double>(cold.asked));
    }
  }
}

TEST_CASE("the second time in order, nothing of the first is left in the page cache") {
  FileDataset data;
  const auto index = shards(data);
  if (!reads_are_counted(index)) return;
  std::vector<SampleId> order(shard_samples);
  for (std::size_t i = 0; i < shard_samples; ++i) order[i] = static_cast<SampleId>(i);
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    FetchOptions options = fetch_options(8);
    options.read_ahead = ReadAhead::sequential;
    {
      const auto engine = make(index, options);
      read_cold(*engine, *index, order);
    }
    CHECK(fraction_resident(*index) < left_in_batches);
    options.page_cache = PageCacheUse::keep;
    const auto engine = make(index, options);
    read_cold(*engine, *index, order);
    CHECK(fraction_resident(*index) > 0.99);
  }
}

TEST_CASE("a ring that keeps one file open drops the pages of each shard, whichever file is opened next in its place") {
  FileDataset data;
  for (std::size_t shard = 0; shard < 100; ++shard)
    data.add_shard(std::to_string(shard), {testing::content_of(40'000, shard), testing::content_of(50'000, shard + 100)});
  const auto index = data.index();
  if (!uring_support().usable || !reads_are_counted(index)) return;
  FetchOptions options = fetch_options(8);
  options.read_ahead = ReadAhead::sequential;
  FileAccess access(index, options);
  JobDesk desk(options, system_timing());
  UringWorker worker(access, desk, 1, 1);
  std::jthread ring([&] { worker.run(); });
  drop_all(*index);
  for (SampleId sample = 0; sample < index->size(); sample += 8) {
    std::vector<FetchRequest> group;
    for (SampleId next = sample; next < sample + 8; ++next) group.push_back(testing::request_of(*index, next));
    REQUIRE(desk.submit(group).ok());
    worker.wake();
    std::array<FetchCompletion, 8> done;
    for (std::size_t count = 0; count < group.size();) {
      const std::size_t some = desk.reap(done, system_timing().clock->after(10));
      REQUIRE(some > 0);
      count += some;
      for (const FetchCompletion& completion : std::span(done).first(some)) {
        CHECK(completion.status.ok());
        desk.pool().give_back({&completion.buffer, 1});
      }
    }
  }
  desk.close();
  worker.wake_always();
  ring.join();
  CHECK(fraction_resident(*index) < left_in_batches);
}

TEST_CASE("files of one sample are dropped once they are read, and kept where that is wanted") {
  FileDataset data;
  for (std::size_t i = 0; i < 50; ++i) data.add(std::to_string(i), testing::content_of(30'000 + 1000 * i, i));
  const auto index = data.index();
  if (!reads_are_counted(index)) return;
  std::vector<SampleId> order(50);
  for (std::size_t i = 0; i < 50; ++i) order[i] = static_cast<SampleId>(i);
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    FetchOptions options = fetch_options(8);
    {
      const auto engine = make(index, options);
      const Cold cold = read_cold(*engine, *index, order);
      CHECK(static_cast<double>(cold.read) <= 1.1 * static_cast<double>(cold.asked));
    }
    CHECK(fraction_resident(*index) < left_in_batches);
    options.page_cache = PageCacheUse::keep;
    const auto engine = make(index, options);
    read_cold(*engine, *index, order);
    CHECK(fraction_resident(*index) > 0.99);
  }
}

TEST_CASE("a filesystem whose reads cannot drop pages themselves is read all the same") {
  const char* const usual = ::getenv("TMPDIR");
  const std::string before = usual == nullptr ? "" : usual;
  if (::access("/dev/shm", W_OK) != 0) return;
  ::setenv("TMPDIR", "/dev/shm", 1);
  FileDataset data;
  if (usual == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", before.c_str(), 1);
  }
  data.add_shard("shard", {"a", "b", "c"});
  for (std::size_t i = 0; i < 20; ++i) data.add(std::to_string(i), testing::content_of(1000 * i + 1, i));
  const auto index = data.index();
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    const auto engine = make(index, fetch_options(8));
    const auto fetched = testing::fetch_all(*engine, *index);
    CHECK(fetched.at(2).bytes == "c");
    for (SampleId i = 3; i < 23; ++i) {
      REQUIRE(fetched.at(i).status.ok());
      CHECK(fetched.at(i).bytes == testing::content_of(1000 * (i - 3) + 1, i - 3));
    }
  }
}

}  // namespace
}  // namespace dsanalyze
