#include "loaders/loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "../base/texts.hpp"
#include "loader_rig.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

TEST_CASE("every epoch delivers each sample exactly once, for every cache and number of accelerators") {
  for (const CacheKind kind : {CacheKind::none, CacheKind::minio, CacheKind::lru}) {
    for (const std::uint32_t slices : {1U, 3U}) {
      CAPTURE(cache_kind_name(kind));
      CAPTURE(slices);
      Rig rig(emulated_dataset(500, 200), kind, 20'000, no_prep());
      LoaderOptions options = loader_options(16, 4);
      options.slices = slices;
      options.held_batches = slices;
      auto loader = rig.loader(options);
      const Seen seen = consume(*loader);
      CHECK(seen.end.code == StatusCode::end);
      REQUIRE(seen.epochs.size() == 4);
      for (auto epoch : seen.epochs) {
        std::ranges::sort(epoch);
        REQUIRE(epoch.size() == 500);
        CHECK(std::ranges::adjacent_find(epoch) == epoch.end());
      }
      const auto epochs = loader->epochs();
      REQUIRE(epochs.size() == 4);
      for (const auto& epoch : epochs) CHECK(epoch.digest == epochs[0].digest);
    }
  }
}

TEST_CASE("MinIO: from the second epoch on, hits are the items held and storage delivers the bytes of the others, every epoch") {
  const auto index = emulated_dataset(1000, 300, 0.5);
  Rig rig(index, CacheKind::minio, index->bytes() * 35 / 100, no_prep());
  auto loader = rig.loader(loader_options(32, 8));
  consume(*loader);
  const auto epochs = loader->epochs();
  const CacheTotals held = rig.server.cache().totals();
  REQUIRE(epochs.size() == 8);
  CHECK(held.bytes <= held.capacity);
  CHECK(held.bytes > held.capacity * 97 / 100);
  CHECK(epochs[0].hits == 0);
  for (std::size_t epoch = 1; epoch < 8; ++epoch) {
    CHECK(epochs[epoch].hits == held.items);
    CHECK(epochs[epoch].requested == index->bytes() - held.bytes);
  }
}

TEST_CASE("a loader knows how long each read and each sample's prep took") {
  const auto index = emulated_dataset(300, 200);
  Rig rig(index, CacheKind::minio, index->bytes() / 2, no_prep());
  auto loader = rig.loader(loader_options(16, 3));
  consume(*loader);
  loader->stop();
  const LoaderTotals totals = loader->totals();
  const LoaderTimes times = loader->times();
  CHECK(times.prep.count() == totals.prep.samples);
  CHECK(times.prep.mean_seconds() * static_cast<double>(times.prep.count()) <= to_seconds(totals.prep.busy));
  CHECK(times.request.count() == totals.misses);
}

TEST_CASE("the real LRU cache has the hits that the policy in core decides, and delivers the right bytes") {
  FileDataset data;
  for (int i = 0; i < 60; ++i)
    data.add(std::to_string(i) + ".jpg", std::string(static_cast<std::size_t>(50 + i * 13), static_cast<char>('a' + i % 26)));
  const auto index = data.index();
  const Bytes capacity = index->bytes() * 6 / 10;
  Rig rig(index, CacheKind::lru, capacity, no_prep());
  auto loader = rig.loader(loader_options(7, 5));
  const Seen seen = consume(*loader);

  std::vector<std::byte> state(cache_policy_state_bytes(CacheKind::lru, index->size()) + 64);
  void* aligned = state.data();
  std::size_t room = state.size();
  std::align(64, room - 64, aligned, room);
  const auto policy = make_cache_policy(CacheKind::lru, capacity, index->size(), {static_cast<std::byte*>(aligned), room});
  std::vector<std::uint64_t> evicted;
  for (std::size_t epoch = 0; epoch < 5; ++epoch) {
    std::uint64_t hits = 0;
    for (const SampleId id : seen.epochs[epoch]) {
      const CacheAccess access{id, (*index)[id].length, 0, 0};
      CacheDecision decision{};
      policy->access({&access, 1}, {&decision, 1}, evicted);
      if (decision == CacheDecision::hit) ++hits;
    }
    CHECK(loader->epochs()[epoch].hits == hits);
  }
}

TEST_CASE("batches are bit-identical whatever the number of workers and wherever the bytes came from") {
  FileDataset data;
  const auto index = pictures(data, {});
  std::vector<std::vector<std::byte>> first;
  for (const std::uint32_t workers : {1U, 4U}) {
    for (const CacheKind kind : {CacheKind::none, CacheKind::minio, CacheKind::lru}) {
      Rig rig(index, kind, index->bytes() / 2, small_prep());
      LoaderOptions options = loader_options(4, 3);
      options.workers = workers;
      auto loader = rig.loader(options);
      Seen seen = consume(*loader);
      REQUIRE(seen.samples.size() == 9);
      if (first.empty()) first = seen.samples;
      CHECK(seen.samples == first);
    }
  }
}

TEST_CASE("samples that cannot be decoded or are gone are left out, counted and named, and the others move up") {
  FileDataset data;
  const auto index = pictures(data, {3, 6});
  std::filesystem::remove(data.folder().root() / "8.jpg");
  Rig rig(index, CacheKind::minio, index->bytes(), small_prep());
  auto loader = rig.loader(loader_options(5, 2));
  const Seen seen = consume(*loader);
  CHECK(seen.end.code == StatusCode::end);
  CHECK(seen.failed == 6);
  CHECK(loader->failed_samples() == 6);
  for (auto epoch : seen.epochs) {
    std::ranges::sort(epoch);
    CHECK(epoch == std::vector<SampleId>{0, 1, 2, 4, 5, 7, 9});
  }
  const auto failures = loader->failures();
  REQUIRE(failures.size() == 3);
  std::set<std::string> names;
  for (const auto& failure : failures) names.insert(failure.path);
  CHECK(names == std::set<std::string>{"3.jpg", "6.jpg", "8.jpg"});

  FileDataset good_data;
  const auto good_index = pictures(good_data, {});
  Rig good(good_index, CacheKind::none, 0, small_prep());
  auto good_loader = good.loader(loader_options(10, 1));
  Rig whole(index, CacheKind::none, 0, small_prep());
  auto bad_loader = whole.loader(loader_options(10, 1));
  const Seen with = consume(*bad_loader);
  const Seen without = consume(*good_loader);
  // Each sample that is there has the bytes that it has without its broken neighbours.
  const std::size_t size = std::size_t{16} * 16 * 3;
  for (std::size_t i = 0; i < with.epochs[0].size(); ++i) {
    const auto& ids = without.epochs[0];
    const auto at = static_cast<std::size_t>(std::ranges::find(ids, with.epochs[0][i]) - ids.begin());
    CHECK(std::memcmp(with.samples[0].data() + i * size, without.samples[0].data() + at * size, size) == 0);
  }
}

TEST_CASE("samples that failed are not counted as prepared, whatever takes their place") {
  FileDataset data;
  const auto index = pictures(data, {0, 1, 2, 3, 4});
  for (const OnError on_error : {OnError::skip, OnError::substitute}) {
    Rig rig(index, CacheKind::none, 0, small_prep());
    LoaderOptions options = loader_options(5, 2);
    options.on_error = on_error;
    options.error_budget = 1;
    auto loader = rig.loader(options);
    CHECK(consume(*loader).end.code == StatusCode::end);
    loader->stop();
    const StageTotals prep = loader->totals().prep;
    CHECK(prep.samples == 10);
    CHECK(prep.failures == 10);
    CHECK(prep.bytes == 10 * 16 * 16 * 3);
    CHECK(loader->times().prep.count() == 10);
    const auto epochs = loader->prepared();
    REQUIRE(epochs.size() == 2);
    for (const EpochPrepared& epoch : epochs) CHECK(epoch.samples == 5);
    for (const EpochTotals& epoch : loader->epochs()) CHECK(epoch.samples == 10);  // drawn
  }
}

TEST_CASE("with on_error fail the first bad sample ends the run with its name") {
  FileDataset data;
  Rig rig(pictures(data, {3}), CacheKind::none, 0, small_prep());
  LoaderOptions options = loader_options(2, 0);
  options.on_error = OnError::fail;
  auto loader = rig.loader(options);
  CHECK(consume(*loader).end.code == StatusCode::corrupt);
  CHECK(testing::says(loader->failure(), "3.jpg"));
}

TEST_CASE("more failures than the error budget allows end the run, however often ten samples fail") {
  FileDataset many;
  Rig failing(pictures(many, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 20), CacheKind::none, 0, small_prep());
  auto loader = failing.loader(loader_options(5, 0));
  CHECK(consume(*loader).end.code == StatusCode::corrupt);
  CHECK(testing::says(loader->failure(), "11 samples failed, more than the error budget"));
  loader.reset();
  FileDataset data;
  Rig rig(pictures(data, {1, 2}), CacheKind::none, 0, small_prep());
  auto again = rig.loader(loader_options(5, 40));
  CHECK(consume(*again).end.code == StatusCode::end);
  again.reset();
  LoaderOptions generous = loader_options(5, 20);
  generous.error_budget = 0.25;
  auto tolerant = rig.loader(generous);
  CHECK(consume(*tolerant).end.code == StatusCode::end);
}

TEST_CASE("a loader that goes on from a saved state delivers the rest of the epoch bit for bit") {
  FileDataset data;
  const auto index = pictures(data, {});
  Rig rig(index, CacheKind::none, 0, small_prep());
  check_every_resume(rig, loader_options(3, 2), 8);
}

TEST_CASE("a state of another dataset, or of other batches, is refused with the difference") {
  FileDataset data;
  FileDataset other;
  for (int i = 0; i < 10; ++i) {
    data.add(std::to_string(i), "a");
    other.add("x" + std::to_string(i), "a");
  }
  Rig rig(data.index(), CacheKind::none, 0, no_prep());
  Rig elsewhere(other.index(), CacheKind::none, 0, no_prep());
  SamplerState saved;
  {
    const auto loader = rig.loader(loader_options(3, 1));
    Batch batch;
    REQUIRE(loader->next(batch, system_timing().clock->after(20)).ok());
    saved = SamplerState::parse(loader->state().serialise());
  }
  CHECK(saved.digest == rig.index->facts().digest);
  const auto refusal = [](Rig& of, const SamplerState& start, std::uint32_t batch) -> std::string {
    LoaderOptions options = loader_options(batch, 1);
    options.start = start;
    try {
      const Loader loader({of.index, of.engine.get(), &of.server.cache(), of.prep.get(), {}, system_timing()}, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  CHECK(refusal(rig, saved, 3).empty());
  CHECK(says(refusal(elsewhere, saved, 3), saved.digest));
  CHECK(says(refusal(elsewhere, saved, 3), elsewhere.index->facts().digest));
  CHECK(says(refusal(rig, saved, 4), "batches of 3"));
  for (const std::uint64_t samples : {9, 11, 50'000'000}) {
    SamplerState larger;
    larger.samples = samples;
    CHECK(says(refusal(rig, larger, 3), "this one has 10"));
  }
}

TEST_CASE("stopping in the middle ends next() and gives every buffer back") {
  Rig rig(emulated_dataset(5000, 100), CacheKind::minio, 100'000, no_prep());
  auto loader = rig.loader(loader_options(8, 0));
  consume(*loader, 20);
  loader->stop();
  Batch batch;
  Status status = loader->next(batch, system_timing().clock->after(10));
  while (status.ok()) {
    loader->release(batch.token);
    status = loader->next(batch, system_timing().clock->after(10));
  }
  CHECK(status.code == StatusCode::cancelled);
  loader.reset();
  CHECK(rig.engine->free_places() == rig.engine->capacity());
}

TEST_CASE("a consumer that gives nothing back stops the loader at its bounded depth, and a deadline ends the wait") {
  Rig rig(emulated_dataset(5000, 100), CacheKind::none, 0, no_prep());
  LoaderOptions options = loader_options(8, 0);
  options.prefetch_batches = 4;
  options.held_batches = 2;
  auto loader = rig.loader(options);
  Batch batch;
  int got = 0;
  while (loader->next(batch, system_timing().clock->after(got < 6 ? 10 : 0.05)).ok()) ++got;
  CHECK(got == 6);
  CHECK(loader->totals().prep.samples == 6 * 8);
}

}  // namespace
}  // namespace dsanalyze
