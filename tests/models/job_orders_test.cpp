#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "models/simulate/cache_simulator.hpp"

using namespace dsanalyze;

namespace {

struct Seen {
  std::uint64_t key;
  Bytes bytes;
  std::uint32_t job;
  std::uint32_t epoch;
};

std::vector<Seen> all_of(const JobOrders& jobs) {
  const auto source = make_order_source(jobs);
  std::vector<Seen> seen;
  AccessBlock block;
  while (source->next(block)) {
    CHECK_FALSE(block.accesses.empty());
    CHECK(block.epoch_of_job.size() == jobs.jobs);
    for (const CacheAccess& access : block.accesses) seen.push_back({access.key, access.bytes, access.job, block.epoch_of_job[access.job]});
  }
  return seen;
}

JobOrders some_jobs(std::uint32_t samples, std::uint32_t jobs, double stagger, std::uint32_t turn) {
  JobOrders orders;
  orders.samples = samples;
  orders.sizes.each = 100;
  orders.epochs = 2;
  orders.seed = 7;
  orders.jobs = jobs;
  orders.stagger = stagger;
  orders.turn = turn;
  return orders;
}

std::vector<std::uint64_t> keys_of(const std::vector<Seen>& seen, std::uint32_t job, std::uint32_t epoch) {
  std::vector<std::uint64_t> keys;
  for (const Seen& each : seen) {
    if (each.job == job && each.epoch == epoch) keys.push_back(each.key);
  }
  return keys;
}

}  // namespace

TEST_CASE("one job's accesses are the loader's order of its seed, epoch after epoch") {
  const auto seen = all_of(some_jobs(10'000, 1, 0, 1));
  REQUIRE(seen.size() == 20'000);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    EpochOrder order;
    make_epoch_order({}, 7, epoch, {}, 10'000, order);
    const auto keys = keys_of(seen, 0, epoch);
    CHECK(std::ranges::equal(keys, order.training));
  }
}

TEST_CASE("with a shuffle buffer the cache is asked in the order in which storage is") {
  std::vector<IndexRecord> records(4000);
  for (std::uint32_t i = 0; i < records.size(); ++i) records[i] = {0, 10 + i, i / 500, 0};
  JobOrders jobs = some_jobs(4000, 1, 0, 1);
  jobs.order.kind = OrderKind::shards;
  jobs.order.shuffle_buffer = 300;
  jobs.sizes.records = records;
  EpochOrder order;
  make_epoch_order(jobs.order, 7, 1, records, 4000, order);
  const auto seen = all_of(jobs);
  CHECK(std::ranges::equal(keys_of(seen, 0, 1), order.storage));
  CHECK(seen.front().bytes == 10 + seen.front().key);
}

TEST_CASE("every job reads every sample once an epoch, in an order of its own") {
  for (const std::uint32_t turn : {1U, 64U, 5000U}) {
    for (const double stagger : {0.0, 0.125, 1.5, 5.0}) {
      CAPTURE(turn);
      CAPTURE(stagger);
      const auto seen = all_of(some_jobs(1000, 3, stagger, turn));
      CHECK(seen.size() == 6000);
      std::set<std::vector<std::uint64_t>> orders;
      for (std::uint32_t job = 0; job < 3; ++job) {
        for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
          auto keys = keys_of(seen, job, epoch);
          orders.insert(keys);
          std::ranges::sort(keys);
          REQUIRE(keys.size() == 1000);
          CHECK(std::ranges::adjacent_find(keys) == keys.end());
        }
      }
      CHECK(orders.size() == 6);
    }
  }
}

TEST_CASE("jobs take turns, a sample each or a batch each, from the begin that their stagger gives them") {
  const auto seen = all_of(some_jobs(1000, 4, 0.1, 1));
  for (std::size_t i = 0; i < 100; ++i) CHECK(seen[i].job == 0);
  for (std::size_t i = 100; i < 300; ++i) CHECK(seen[i].job == i % 2);
  for (std::size_t i = 300; i < 600; ++i) CHECK(seen[i].job == i % 3);
  CHECK(seen.back().job == 3);

  const auto batches = all_of(some_jobs(1000, 2, 0, 64));
  for (std::size_t i = 0; i < std::size_t{15} * 128; ++i) CHECK(batches[i].job == i / 64 % 2);
  // 1000 = 15 x 64 + 40: an epoch's last batch is short.
  CHECK(batches[15 * 128 + 39].job == 0);
  CHECK(batches[15 * 128 + 40].job == 1);
  CHECK(batches[15 * 128 + 80].job == 0);
  CHECK(batches[15 * 128 + 80].epoch == 1);
}

TEST_CASE("a job that begins after all others have ended still runs") {
  const auto seen = all_of(some_jobs(100, 2, 7.3, 16));
  REQUIRE(seen.size() == 400);
  for (std::size_t i = 0; i < 400; ++i) CHECK(seen[i].job == (i < 200 ? 0 : 1));
}

TEST_CASE("items are kept in whole units") {
  JobOrders jobs = some_jobs(4, 1, 0, 1);
  const std::vector<std::uint32_t> sizes = {1, 4096, 4097, 0};
  jobs.sizes.sizes = sizes;
  jobs.unit = 4096;
  const std::vector<Bytes> kept = {4096, 4096, 8192, 0};
  for (const Seen& each : all_of(jobs)) CHECK(each.bytes == kept[each.key]);
}

// Eight jobs that start together and run at one speed read each sample once for all, if the cache bridges the distance between them; far apart they
// each read nearly everything, as [DS-Analyzer, Table 3] found: the amplification lies between 1 and the number of jobs.
TEST_CASE("jobs in one order help each other through a small LRU cache, and jobs of their own orders do not") {
  JobOrders jobs = some_jobs(4000, 8, 0, 1);
  jobs.order.kind = OrderKind::sequential;
  const std::vector<CacheCase> cases = {{ReplayPolicy::lru, 40'000}};
  const auto together = replay(*make_order_source(jobs), cases).front();
  CHECK(together.epochs[1].counts.misses() == 4000);
  CHECK(together.jobs.size() == 8);
  CHECK(together.jobs[0][1].counts.misses() == 4000);  // the first of each turn reads, the others find
  CHECK(together.jobs[7][1].counts.misses() == 0);

  jobs.stagger = 0.11;
  const auto apart = replay(*make_order_source(jobs), cases).front();
  CHECK(apart.epochs[1].counts.miss_share() > 0.9);

  jobs.order.kind = OrderKind::random;
  const auto shuffled = replay(*make_order_source(jobs), cases).front();
  CHECK(shuffled.epochs[1].counts.miss_share() > 0.85);
  CHECK(shuffled.epochs[1].counts.accesses == 32'000);
}

TEST_CASE("each epoch of all jobs together is the sum of the jobs' own") {
  JobOrders jobs = some_jobs(500, 5, 0.4, 8);
  jobs.epochs = 3;
  const std::vector<CacheCase> cases = {{ReplayPolicy::minio, 20'000}, {ReplayPolicy::page_model_linux, 20'000}};
  for (const CaseCounts& result : replay(*make_order_source(jobs), cases)) {
    REQUIRE(result.epochs.size() == 3);
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      AccessCounts sum;
      for (const auto& job : result.jobs) {
        CHECK(job[epoch].epoch == epoch);
        CHECK(job[epoch].counts.accesses == 500);
        sum.add(job[epoch].counts);
      }
      CHECK(sum == result.epochs[epoch].counts);
    }
  }
}

TEST_CASE("jobs of one seed pass through one order, each in its own time") {
  JobOrders jobs = some_jobs(500, 3, 0.2, 1);
  jobs.seeds = JobSeeds::same;
  const auto seen = all_of(jobs);
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    CHECK(keys_of(seen, 1, epoch) == keys_of(seen, 0, epoch));
    CHECK(keys_of(seen, 2, epoch) == keys_of(seen, 0, epoch));
  }
  CHECK(keys_of(seen, 0, 0) != keys_of(seen, 0, 1));
}

TEST_CASE("orders that cannot be are refused") {
  const auto refused = [](auto change, const char* what) {
    JobOrders jobs = some_jobs(10, 1, 0, 1);
    change(jobs);
    CHECK_THROWS_WITH_AS(make_order_source(jobs), doctest::Contains(what), Error);
  };
  refused([](JobOrders& jobs) { jobs.samples = 0; }, "no samples");
  refused([](JobOrders& jobs) { jobs.jobs = 0; }, "1 or more");
  refused([](JobOrders& jobs) { jobs.jobs = 1025; }, "more than 1024 jobs");
  refused([](JobOrders& jobs) { jobs.epochs = 0; }, "1 or more");
  refused([](JobOrders& jobs) { jobs.turn = 0; }, "1 or more");
  refused([](JobOrders& jobs) { jobs.unit = 0; }, "1 or more");
  refused([](JobOrders& jobs) { jobs.stagger = -0.1; }, "stagger");
  refused([](JobOrders& jobs) { jobs.stagger = std::numeric_limits<double>::quiet_NaN(); }, "stagger");
  refused([](JobOrders& jobs) { jobs.stagger = std::numeric_limits<double>::infinity(); }, "stagger");
  refused([](JobOrders& jobs) { jobs.order.kind = OrderKind::shards; }, "shards");
  static const std::vector<std::uint32_t> nine(9, 1);
  refused([](JobOrders& jobs) { jobs.sizes.sizes = nine; }, "one size a sample");
}
