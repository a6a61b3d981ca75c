#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "core/partition/assignment.hpp"
#include "loader_rig.hpp"

namespace dsanalyze {
namespace {

using testing::consume;
using testing::loader_options;
using testing::no_prep;
using testing::Rig;
using testing::Seen;

/// A slice of each global mini-batch, among as many ranks as an epoch has.
class SliceShare final : public RankShare {
 public:
  SliceShare(int rank, std::vector<std::uint32_t> ranks_by_epoch) : m_rank(rank), m_ranks_by_epoch(std::move(ranks_by_epoch)) {}
  Status begin_epoch(std::uint64_t epoch, std::uint64_t /*position*/) override {
    begun.push_back(epoch);
    if (epoch >= m_ranks_by_epoch.size()) return {StatusCode::io, 0};
    m_ranks = m_ranks_by_epoch[epoch];
    return {};
  }
  [[nodiscard]] std::uint32_t ranks() const override { return m_ranks; }
  std::span<const SampleId> mine(std::span<const SampleId> global) override { return Assignment::slice(global, m_rank, static_cast<int>(m_ranks)); }
  void stop() override { stopped = true; }
  [[nodiscard]] std::string failure() const override { return "rank 3 is gone"; }

  std::vector<std::uint64_t> begun;
  std::atomic<bool> stopped{false};

 private:
  int m_rank;
  std::vector<std::uint32_t> m_ranks_by_epoch;
  std::uint32_t m_ranks = 1;
};

std::unique_ptr<Loader> shared_loader(Rig& rig, LoaderOptions options, RankShare& share) {
  options.start.samples = rig.index->size();
  return std::make_unique<Loader>(Loader::Parts{.index = rig.index,
                                                .engine = rig.engine.get(),
                                                .cache = &rig.server.cache(),
                                                .prep = rig.prep.get(),
                                                .storage_bytes = {},
                                                .timing = system_timing(),
                                                .share = &share},
                                  options);
}

std::set<SampleId> set_of(const std::vector<SampleId>& ids) { return {ids.begin(), ids.end()}; }

}  // namespace

TEST_CASE("ranks together train on each sample once an epoch, each on its part of every global mini-batch") {
  const auto index = testing::emulated_dataset(46, 100);
  std::vector<Seen> seen;
  for (int rank = 0; rank < 3; ++rank) {
    Rig rig(index, CacheKind::minio, 4600, no_prep());
    SliceShare share(rank, {3, 3});
    auto loader = shared_loader(rig, loader_options(5, 2), share);
    seen.push_back(consume(*loader));
    CHECK(share.begun == std::vector<std::uint64_t>{0, 1});
    // 46 samples in global batches of 15: three whole ones, and one sample that is the first rank's; the others take a step of none.
    CHECK(seen.back().samples.size() == 2 * 4);
    CHECK(seen.back().epochs.at(0).size() == (rank == 0 ? 16 : 15));
    const auto totals = loader->epochs();
    REQUIRE(totals.size() == 2);
    CHECK(totals[1].samples == seen.back().epochs.at(1).size());
  }
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    std::set<SampleId> all;
    for (const Seen& one : seen) all.merge(set_of(one.epochs.at(epoch)));
    CHECK(all.size() == 46);
  }
}

TEST_CASE("a job whose ranks become fewer goes on with smaller global mini-batches and as large local ones") {
  const auto index = testing::emulated_dataset(24, 100);
  Rig rig(index, CacheKind::none, 0, no_prep());
  SliceShare share(0, {3, 2});
  auto loader = shared_loader(rig, loader_options(4, 2), share);
  const Seen seen = consume(*loader);
  CHECK(seen.samples.size() == 2 + 3);
  CHECK(seen.epochs.at(0).size() == 8);
  CHECK(seen.epochs.at(1).size() == 12);
}

TEST_CASE("accelerators of one rank part its share evenly, and a share of none is one batch of none") {
  const auto index = testing::emulated_dataset(13, 100);
  Rig rig(index, CacheKind::none, 0, no_prep());
  SliceShare share(2, {3});
  LoaderOptions options = loader_options(2, 1);
  options.slices = 2;
  options.held_batches = 2;
  auto loader = shared_loader(rig, options, share);
  Batch batch;
  std::vector<std::uint32_t> counts;
  while (loader->next(batch, system_timing().clock->after(20)).ok()) {
    counts.push_back(batch.count);
    CHECK(batch.slices == (counts.size() <= 2 ? 2 : 1));
    CHECK(batch.last_of_epoch == (counts.size() == 3));
    loader->release(batch.token);
  }
  CHECK(counts == std::vector<std::uint32_t>{2, 2, 0});
}

TEST_CASE("a share that cannot go on ends the loader with its reason, and a loader that stops stops its share") {
  const auto index = testing::emulated_dataset(12, 100);
  Rig rig(index, CacheKind::none, 0, no_prep());
  SliceShare share(0, {2});
  auto loader = shared_loader(rig, loader_options(3, 0), share);
  const Seen seen = consume(*loader);
  CHECK(seen.epochs.size() <= 1);  // those that were prepared may not have been taken when the next epoch could not begin
  CHECK(seen.end.code == StatusCode::corrupt);
  CHECK(loader->failure() == "rank 3 is gone");
  CHECK(!share.stopped);
  loader->stop();
  CHECK(share.stopped);
}

TEST_CASE("a part that is larger than the rank's batch ends the loader with an error that says so, before anything of it is written") {
  const auto index = testing::emulated_dataset(64, 100);
  Rig rig(index, CacheKind::none, 0, no_prep());
  /// Takes the part of one of two ranks of batches that three ranks were to part.
  class TooLarge final : public RankShare {
   public:
    Status begin_epoch(std::uint64_t, std::uint64_t) override { return {}; }
    [[nodiscard]] std::uint32_t ranks() const override { return 3; }
    std::span<const SampleId> mine(std::span<const SampleId> global) override { return Assignment::slice(global, 0, 2); }
    void stop() override {}
    [[nodiscard]] std::string failure() const override { return ""; }
  };
  for (const std::uint32_t slices : {1U, 2U}) {
    TooLarge share;
    LoaderOptions options = loader_options(4, 1);
    options.slices = slices;
    options.held_batches = slices;
    auto loader = shared_loader(rig, options, share);
    const Seen seen = consume(*loader);
    CHECK(seen.samples.empty());
    CHECK(seen.end.code == StatusCode::corrupt);
    CHECK(loader->failure() ==
          fmt::format("the loader failed: this rank's part of a global mini-batch has {} samples, and its batches have room for {}", slices * 6,
                      slices * 4));
  }
}

TEST_CASE("a share of batches with a shuffle buffer, or of shards, is refused, and the files' order is not") {
  const auto index = testing::emulated_dataset(12, 100);
  Rig rig(index, CacheKind::none, 0, no_prep());
  SliceShare share(0, {2});
  LoaderOptions options = loader_options(3, 1);
  options.start.order.kind = OrderKind::sequential;
  CHECK_NOTHROW(shared_loader(rig, options, share));
  options.start.order.shuffle_buffer = 8;
  CHECK_THROWS_WITH_AS(shared_loader(rig, options, share), doctest::Contains("shuffle buffer"), UsageError);
  options.start.order = {.kind = OrderKind::shards};
  CHECK_THROWS_WITH_AS(shared_loader(rig, options, share), doctest::Contains("shuffle buffer"), UsageError);
}

}  // namespace dsanalyze
