#include <doctest/doctest.h>

#include <numeric>
#include <thread>

#include "../loaders/dataset/made_dataset.hpp"
#include "loaders/sampler.hpp"
#include "made_ranks.hpp"
#include "teams.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t samples = 60;
constexpr Bytes of_a_sample = 1000;

LoadInputs inputs_of(PartitionMode mode) {
  LoadInputs inputs;
  inputs.index = testing::emulated_dataset(samples, of_a_sample);
  inputs.host = read_host_facts();
  ProfileSettings& settings = inputs.settings;
  settings.dataset = "emulated:test";
  settings.partition = mode;
  settings.storage = Seam::null;
  settings.prep = Seam::null;
  settings.accelerator = AcceleratorKind::null;
  settings.batch_size = 10;
  settings.workers = 1;
  settings.world = 2;
  return inputs;
}

Pipeline::Spec spec_of(const LoadInputs& inputs) {
  Pipeline::Spec spec;
  spec.index = inputs.index;
  spec.cache = CacheKind::minio;
  spec.cache_bytes = samples * of_a_sample / 2;
  return spec;
}

struct Trained {
  std::vector<EpochTotals> epochs;
  LoaderTimes times;
  bool asks_others = false;
};

/// Two epochs by two ranks that hold half of the dataset each.
std::vector<Trained> train(const LoadInputs& inputs) {
  test::Teams teams = test::teams_of(2);
  std::vector<Trained> trained(teams.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < teams.size(); ++rank) {
    threads.emplace_back([&, rank] {
      RankPartition partition({*teams[rank], inputs, spec_of(inputs), system_timing(), [](Nanoseconds) { return false; }, test::patience_seconds});
      const auto loader = partition.pipeline().make_loader({.epochs = 2});
      Batch batch;
      while (loader->next(batch, test::in_good_time()).ok()) loader->release(batch.token);
      // No rank leaves while the other asks it.
      AliveRanks alive(2);
      static_cast<void>(teams[rank]->agree(alive, {test::patience_seconds, {}, system_timing()}).ok());
      loader->stop();
      trained[rank] = {loader->epochs(), loader->times(), partition.asks_others()};
    });
  }
  threads.clear();
  std::jthread leaving([&] { teams[0].reset(); });
  teams[1].reset();
  return trained;
}

template <typename Field>
Field sum(const std::vector<Trained>& trained, std::size_t epoch, Field EpochTotals::*field) {
  return std::accumulate(trained.begin(), trained.end(), Field{}, [&](Field all, const Trained& rank) { return all + rank.epochs.at(epoch).*field; });
}

/// Rank 0 of 2, whose other rank takes part in one epoch and is lost after it.
struct FirstOfTwo {
  FirstOfTwo() {
    facts.world = 2;
    facts.agree = [this](std::uint64_t, Deadline) { return Agreement{{}, facts.epochs.size() <= 2 ? Others{0, 1} : Others{0}}; };
    team.emplace(std::make_unique<test::MadeRanks>(facts));
  }
  using Others = std::vector<std::uint32_t>;
  test::MadeFacts facts;
  std::optional<RankTeam> team;
};

/// What rank 1 takes of the first epoch where a rank's part of a global mini-batch is so large.
std::vector<SampleId> share_of_rank_1(std::uint64_t seed, std::uint32_t rank_batch) {
  SamplerState start;
  start.seed = seed;
  start.samples = samples;
  Sampler sampler(start, 2 * rank_batch);
  std::vector<SampleId> share;
  std::uint64_t epoch = 0;
  for (bool last = false; !last;) {
    const auto global = sampler.next(epoch, last);
    share.insert(share.end(), global.begin() + static_cast<std::ptrdiff_t>(global.size() / 2), global.end());
  }
  return share;
}

}  // namespace

TEST_CASE("ranks that partition a dataset read it from storage once, and ask one another after that") {
  const std::vector<Trained> trained = train(inputs_of(PartitionMode::partitioned));
  for (const Trained& rank : trained) CHECK(rank.asks_others);
  CHECK(sum(trained, 0, &EpochTotals::requested) == samples * of_a_sample);
  CHECK(sum(trained, 1, &EpochTotals::requested) == 0);
  CHECK(sum(trained, 1, &EpochTotals::samples) == samples);
  CHECK(sum(trained, 1, &EpochTotals::peer_hits) > 0);
}

TEST_CASE("ranks that do not partition ask storage for what their own caches lack") {
  const std::vector<Trained> trained = train(inputs_of(PartitionMode::none));
  for (const Trained& rank : trained) CHECK_FALSE(rank.asks_others);
  CHECK(sum(trained, 1, &EpochTotals::samples) == samples);
  CHECK(sum(trained, 1, &EpochTotals::hits) > 0);
  CHECK(sum(trained, 1, &EpochTotals::peer_hits) == 0);
  CHECK(sum(trained, 1, &EpochTotals::requested) > 0);
}

TEST_CASE("an emulated network carries the scaled bytes a second, and a real one as much as it can") {
  LoadInputs inputs = inputs_of(PartitionMode::partitioned);
  inputs.settings.network = Seam::emulated;
  inputs.settings.network_bytes_per_s = 50'000'000;
  inputs.settings.scale = 1000;  // 50,000 bytes a second: 20 ms a sample
  for (const Trained& rank : train(inputs)) {
    REQUIRE(rank.times.peer.count() > 0);
    CHECK(rank.times.peer.quantiles(2).front() >= 0.019);
  }
  inputs.settings.network = Seam::real;
  inputs.settings.network_bytes_per_s = 1;
  CHECK(sum(train(inputs), 1, &EpochTotals::peer_hits) > 0);
}

TEST_CASE("other ranks are served from the cache as long as the partition lives") {
  FirstOfTwo job;
  const LoadInputs inputs = inputs_of(PartitionMode::none);
  {
    const RankPartition partition({*job.team, inputs, spec_of(inputs), system_timing(), [](Nanoseconds) { return false; }, 1});
    CHECK(job.facts.serving == std::vector<const HeldSamples*>{&partition.held()});
  }
  REQUIRE(job.facts.serving.size() == 2);
  CHECK(job.facts.serving.back() == nullptr);
}

TEST_CASE("the samples that a lost rank was to train are those of its accelerators together where they step together, else of one") {
  for (const StepMode step : {StepMode::lockstep, StepMode::independent}) {
    CAPTURE(static_cast<int>(step));
    FirstOfTwo job;
    LoadInputs inputs = inputs_of(PartitionMode::none);
    inputs.settings.accelerators = 2;
    inputs.settings.step = step;
    inputs.settings.seed = 7;
    RankPartition partition({*job.team, inputs, spec_of(inputs), system_timing(), [](Nanoseconds) { return false; }, 1});
    REQUIRE(partition.share().begin_epoch(0, 0).ok());
    REQUIRE(partition.share().begin_epoch(1, 0).ok());
    const auto& lost = partition.share().account().lost;
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].rank == 1);
    CHECK(lost[0].share == share_of_rank_1(7, step == StepMode::lockstep ? 20 : 10));
  }
}

TEST_CASE("before each epoch but the first a rank is asked whether the run has taken long enough") {
  FirstOfTwo job;
  test::MovedClock clock;
  const LoadInputs inputs = inputs_of(PartitionMode::none);
  std::vector<double> asked;
  RankPartition partition({*job.team,
                           inputs,
                           spec_of(inputs),
                           {&clock, system_timing().waiter},
                           [&asked](Nanoseconds since_begin) {
                             asked.push_back(to_seconds(since_begin));
                             return since_begin > to_nanoseconds(1e6);
                           },
                           1});
  REQUIRE(partition.share().begin_epoch(0, 0).ok());
  CHECK(asked.empty());
  clock.move(500'000);
  REQUIRE(partition.share().begin_epoch(1, 0).ok());
  clock.move(500'000);
  CHECK(partition.share().begin_epoch(2, 0).code == StatusCode::end);
  REQUIRE(asked.size() == 2);
  CHECK(asked[0] >= 500'000);
  CHECK(asked[0] < 600'000);
  CHECK(asked[1] >= 1'000'000);
}

TEST_CASE("ranks that read from one storage have equal parts of its rate, and of storages of their own the whole") {
  ProfileSettings settings;
  settings.world = 4;
  settings.storage_bytes_per_s = 400;
  settings.storage_scope = StorageScope::shared;
  share_storage(settings);
  CHECK(settings.storage_bytes_per_s == 100);
  settings.storage_scope = StorageScope::server;
  share_storage(settings);
  CHECK(settings.storage_bytes_per_s == 100);
}

}  // namespace dsanalyze
