#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "loader_rig.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

/// Pictures in three files one after another, as shards have them.
std::shared_ptr<const DatasetIndex> sharded_pictures(FileDataset& data, std::uint32_t count) {
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    std::vector<std::string> images;
    for (std::uint32_t i = shard * count / 3; i < (shard + 1) * count / 3; ++i) {
      test::ImageKind kind;
      kind.width = 40 + static_cast<int>(i);
      kind.height = 30;
      images.push_back(text_of(test::encode_picture(kind)));
    }
    data.add_shard("shard-" + std::to_string(shard), images);
  }
  return data.index();
}

std::vector<OrderSpec> orders() {
  return {
      {}, {OrderKind::sequential, 0}, {OrderKind::sequential, 7}, {OrderKind::shards, 0}, {OrderKind::shards, 7, 0, 1, 2}, {OrderKind::shards, 100}};
}

TEST_CASE("every order delivers each sample exactly once an epoch, with every cache") {
  FileDataset data;
  const auto index = sharded_pictures(data, 40);
  for (const OrderSpec& order : orders()) {
    for (const CacheKind kind : {CacheKind::none, CacheKind::minio, CacheKind::lru}) {
      CAPTURE(order_kind_name(order.kind));
      CAPTURE(order.shuffle_buffer);
      CAPTURE(cache_kind_name(kind));
      Rig rig(index, kind, index->bytes() / 3, no_prep(), 256);
      LoaderOptions options = loader_options(8, 4);
      options.slices = 2;
      options.held_batches = 2;
      options.start.order = order;
      auto loader = rig.loader(options);
      const Seen seen = consume(*loader);
      CHECK(seen.end.code == StatusCode::end);
      REQUIRE(seen.epochs.size() == 4);
      for (auto epoch : seen.epochs) {
        std::ranges::sort(epoch);
        REQUIRE(epoch.size() == 40);
        CHECK(std::ranges::adjacent_find(epoch) == epoch.end());
      }
      loader.reset();
      CHECK(rig.engine->free_places() == rig.engine->capacity());
    }
  }
}

/// Keeps when each sample's bytes were said to be ready for prep.
class ReadyTimes : public PrepFactory {
 public:
  explicit ReadyTimes(std::vector<Nanoseconds>& ready) : m_ready(ready) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<Watching>(m_ready); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override { return TensorShape::images(DType::uint8, Layout::nhwc, count, 1, 1, 4); }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {}; }

 private:
  class Watching : public Prep {
   public:
    explicit Watching(std::vector<Nanoseconds>& ready) : m_ready(ready) {}
    Status prepare(const PrepTask& task) override {
      m_ready[task.sample] = task.ready;  // each sample is one worker's
      return {};
    }
    [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {}; }

   private:
    std::vector<Nanoseconds>& m_ready;
  };
  std::vector<Nanoseconds>& m_ready;
};

TEST_CASE("a sample that waited in the shuffle buffer is ready for prep when its batch draws it, not when it was read") {
  FileDataset data;
  const auto index = sharded_pictures(data, 40);
  std::vector<Nanoseconds> ready(40);
  Rig rig(index, CacheKind::none, 0, std::make_unique<ReadyTimes>(ready), 256);
  LoaderOptions options = loader_options(4, 1);
  options.start.order = {OrderKind::sequential, 30};
  options.prefetch_batches = 1;  // two slots: the third batch is drawn when the first is given back
  auto loader = rig.loader(options);
  std::array<Batch, 3> batches;
  for (int i : {0, 1}) REQUIRE(loader->next(batches[i], system_timing().clock->after(20)).ok());
  const Nanoseconds given_back = system_timing().clock->now();
  loader->release(batches[0].token);
  REQUIRE(loader->next(batches[2], system_timing().clock->after(20)).ok());
  const auto* ids = reinterpret_cast<const SampleId*>(loader->memory(batches[2]) + batches[2].ids_offset);
  for (std::uint32_t i = 0; i < batches[2].count; ++i) CHECK(ready[ids[i]] >= given_back);
}

TEST_CASE("with every order a loader that goes on from any batch delivers the rest bit for bit") {
  FileDataset data;
  const auto index = sharded_pictures(data, 24);
  for (const OrderSpec& order : orders()) {
    CAPTURE(order_kind_name(order.kind));
    CAPTURE(order.shuffle_buffer);
    Rig rig(index, CacheKind::none, 0, small_prep(), 256);
    LoaderOptions options = loader_options(5, 2);
    options.start.order = order;
    check_every_resume(rig, options, 10);
  }
}

TEST_CASE("MinIO's hits are the items held with a shuffle buffer too") {
  FileDataset data;
  const auto index = sharded_pictures(data, 60);
  Rig rig(index, CacheKind::minio, index->bytes() / 2, no_prep(), 256);
  LoaderOptions options = loader_options(8, 4);
  options.start.order = {OrderKind::shards, 20};
  auto loader = rig.loader(options);
  consume(*loader);
  const auto epochs = loader->epochs();
  REQUIRE(epochs.size() == 4);
  CHECK(rig.server.cache().totals().items > 20);
  for (std::size_t i = 1; i < epochs.size(); ++i) CHECK(epochs[i].hits == rig.server.cache().totals().items);
}

TEST_CASE("a loader that is stopped with a full shuffle buffer gives every buffer and promise back") {
  FileDataset data;
  const auto index = sharded_pictures(data, 60);
  for (const CacheKind kind : {CacheKind::minio, CacheKind::lru}) {
    Rig rig(index, kind, index->bytes(), no_prep(), 256);
    LoaderOptions options = loader_options(4, 0);
    options.start.order = {OrderKind::shards, 40};
    options.prefetch_batches = 1;
    auto loader = rig.loader(options);
    consume(*loader, 1);
    loader->stop();
    loader.reset();
    CHECK(rig.engine->free_places() == rig.engine->capacity());
    // What was promised and not stored is free again: a whole epoch fills the cache.
    auto again = rig.loader(loader_options(4, 1));
    consume(*again);
    CHECK(rig.server.cache().totals().items == 60);
  }
}

TEST_CASE("a shuffle buffer that the engine has no places for is refused") {
  FileDataset data;
  const auto index = sharded_pictures(data, 30);
  Rig rig(index, CacheKind::none, 0, no_prep(), 16);
  LoaderOptions options = loader_options(8, 1);
  options.start.order = {OrderKind::sequential, 8};
  CHECK_THROWS_AS(rig.loader(options), UsageError);
}

TEST_CASE("on_error substitute keeps batches whole: a good sample of the batch stands in, and the digest says so") {
  FileDataset data;
  const auto index = pictures(data, {3, 6});
  Rig rig(index, CacheKind::none, 0, small_prep());
  LoaderOptions options = loader_options(5, 3);
  options.on_error = OnError::substitute;
  options.error_budget = 1;
  auto loader = rig.loader(options);
  const Seen seen = consume(*loader);
  CHECK(seen.end.code == StatusCode::end);
  CHECK(seen.failed == 6);
  for (const auto& epoch : seen.epochs) {
    CHECK(epoch.size() == 10);
    CHECK(std::ranges::count(epoch, 3U) == 0);
    CHECK(std::ranges::count(epoch, 6U) == 0);
  }
  const auto epochs = loader->epochs();
  REQUIRE(epochs.size() == 3);
  for (const auto& epoch : epochs) {
    SampleSetDigest used;
    for (const SampleId id : seen.epochs[epoch.epoch]) used.add(id);
    CHECK(epoch.digest == used.text());
  }
  // A stand-in is the very picture that it stands for elsewhere in the batch.
  const std::size_t size = std::size_t{16} * 16 * 3;
  for (std::size_t batch = 0; batch < 2; ++batch) {
    const auto ids = std::span(seen.epochs[0]).subspan(batch * 5, 5);
    for (std::size_t a = 0; a < 5; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (ids[a] != ids[b]) continue;
        const std::byte* samples = seen.samples[batch].data();
        CHECK(std::equal(samples + a * size, samples + (a + 1) * size, samples + b * size));
      }
    }
  }
  loader.reset();
  auto again = rig.loader(options);
  CHECK(consume(*again).samples == seen.samples);
}

TEST_CASE("a batch without any good sample is empty, whatever stands in elsewhere") {
  FileDataset data;
  const auto index = pictures(data, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Rig rig(index, CacheKind::none, 0, small_prep());
  LoaderOptions options = loader_options(5, 1);
  options.on_error = OnError::substitute;
  options.error_budget = 1;
  auto loader = rig.loader(options);
  const Seen seen = consume(*loader);
  CHECK(seen.end.code == StatusCode::end);
  CHECK(seen.epochs[0].empty());
  CHECK(seen.failed == 10);
}

}  // namespace
}  // namespace dsanalyze
