#include "models/simulate/cache_simulator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <list>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

using namespace dsanalyze;

namespace {

constexpr std::array all_policies = {
    ReplayPolicy::none,  ReplayPolicy::minio, ReplayPolicy::lru, ReplayPolicy::page_model_random, ReplayPolicy::page_model_linux,
    ReplayPolicy::belady};

/// A trace that is given, in blocks of any size.
class GivenTrace final : public AccessSource {
 public:
  GivenTrace(std::vector<CacheAccess> accesses, std::uint64_t keys, std::size_t block = 7, std::size_t epoch_length = SIZE_MAX)
      : m_accesses(std::move(accesses)), m_keys(keys), m_block(block), m_epoch_length(epoch_length) {}

  void rewind() override { m_at = 0; }
  bool next(AccessBlock& block) override {
    const std::size_t left_of_epoch = m_epoch_length - m_at % m_epoch_length;
    const std::size_t count = std::min({m_block, m_accesses.size() - m_at, left_of_epoch});
    m_epoch = static_cast<std::uint32_t>(m_at / m_epoch_length);
    block = {std::span(m_accesses).subspan(m_at, count), {&m_epoch, 1}};
    m_at += count;
    return count > 0;
  }
  [[nodiscard]] std::uint64_t key_count() const override { return m_keys; }
  [[nodiscard]] std::uint32_t jobs() const override { return 1; }

 private:
  std::vector<CacheAccess> m_accesses;
  std::uint64_t m_keys;
  std::size_t m_block;
  std::size_t m_epoch_length;
  std::size_t m_at = 0;
  std::uint32_t m_epoch = 0;
};

std::vector<CacheAccess> random_trace(std::uint64_t seed, std::uint64_t keys, std::size_t length, Bytes largest) {
  RandomStream random(seed);
  std::vector<Bytes> sizes(keys);
  for (Bytes& size : sizes) size = 1 + random.below(largest);
  std::vector<CacheAccess> accesses(length);
  for (CacheAccess& access : accesses) {
    access.key = std::min(random.below(keys), random.below(keys));
    access.bytes = sizes[access.key];
  }
  return accesses;
}

/// Least recently used, as one would write it on a blackboard.
AccessCounts plain_lru(const std::vector<CacheAccess>& trace, Bytes capacity) {
  std::list<CacheAccess> held;
  Bytes bytes = 0;
  AccessCounts counts;
  for (const CacheAccess& access : trace) {
    ++counts.accesses;
    counts.bytes += access.bytes;
    const auto found = std::ranges::find(held, access.key, &CacheAccess::key);
    if (found != held.end()) {
      ++counts.hits;
      held.splice(held.begin(), held, found);
      continue;
    }
    counts.bytes_missed += access.bytes;
    if (access.bytes > capacity) continue;
    for (; bytes + access.bytes > capacity; held.pop_back()) bytes -= held.back().bytes;
    held.push_front(access);
    bytes += access.bytes;
  }
  return counts;
}

/// The most hits that any sequence of decisions can have with items of one size: every one is tried.
std::uint64_t most_hits(const std::vector<CacheAccess>& trace, std::size_t room) {
  std::map<std::vector<std::uint64_t>, std::uint64_t> best = {{{}, 0}};
  for (const CacheAccess& access : trace) {
    std::map<std::vector<std::uint64_t>, std::uint64_t> after;
    const auto reach = [&after](std::vector<std::uint64_t> held, std::uint64_t hits) {
      std::ranges::sort(held);
      std::uint64_t& known = after[held];
      known = std::max(known, hits);
    };
    for (const auto& [held, hits] : best) {
      const bool hit = std::ranges::find(held, access.key) != held.end();
      reach(held, hits + (hit ? 1 : 0));
      if (hit || room == 0) continue;
      std::vector<std::uint64_t> with = held;
      if (held.size() < room) {
        with.push_back(access.key);
        reach(with, hits);
        continue;
      }
      for (std::uint64_t& dropped : with) {
        const std::uint64_t before = std::exchange(dropped, access.key);
        reach(with, hits);
        dropped = before;
      }
    }
    best = std::move(after);
  }
  return std::ranges::max_element(best, {}, [](const auto& each) { return each.second; })->second;
}

JobOrders some_jobs(std::uint32_t samples, std::uint32_t epochs) {
  JobOrders jobs;
  jobs.samples = samples;
  jobs.sizes.each = 100;
  jobs.epochs = epochs;
  jobs.seed = 5;
  return jobs;
}

std::vector<CaseCounts> replay_jobs(const JobOrders& jobs, const std::vector<CacheCase>& cases, const ReplayOptions& options = {}) {
  return replay(*make_order_source(jobs), cases, options);
}

AccessCounts all_epochs(const CaseCounts& result) {
  AccessCounts all;
  for (const EpochCounts& epoch : result.epochs) all.add(epoch.counts);
  return all;
}

}  // namespace

TEST_CASE("MinIO's hits from the second epoch on are the items that it holds, whatever their sizes") {
  RandomStream random(3);
  std::vector<std::uint32_t> sizes(3000);
  for (std::uint32_t& size : sizes) size = static_cast<std::uint32_t>(1000 + random.below(200'000));
  const Bytes total = std::accumulate(sizes.begin(), sizes.end(), Bytes{0});
  JobOrders jobs = some_jobs(3000, 4);
  jobs.sizes.sizes = sizes;
  for (const CaseCounts& result :
       replay_jobs(jobs, {{ReplayPolicy::minio, total / 4}, {ReplayPolicy::minio, total / 2}, {ReplayPolicy::minio, 2 * total}})) {
    CAPTURE(result.cache.capacity);
    REQUIRE(result.epochs.size() == 4);
    CHECK(result.epochs[0].counts.hits == 0);
    CHECK(result.epochs[0].counts.bytes == total);
    CHECK(result.epochs[0].counts.bytes_missed == total);
    CHECK(result.items_held > 0);
    for (std::size_t epoch = 1; epoch < 4; ++epoch) {
      CHECK(result.epochs[epoch].counts.hits == result.items_held);
      CHECK(result.epochs[epoch].counts.bytes_missed == total - result.bytes_held);
    }
    CHECK(result.bytes_held <= result.cache.capacity);
  }
}

TEST_CASE("without a cache every byte is read in every epoch") {
  const CaseCounts result = replay_jobs(some_jobs(500, 3), {{ReplayPolicy::none, 50'000}}).front();
  CHECK(all_epochs(result) == AccessCounts{1500, 0, 150'000, 150'000});
  CHECK(result.items_held == 0);
}

TEST_CASE("LRU has the hits and misses of a plain list on random traces of items of any size") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const auto trace = random_trace(seed, 80, 5000, 200);
    GivenTrace source(trace, 80, 1 + seed * 13);
    for (const Bytes capacity : {Bytes{0}, Bytes{150}, Bytes{1000}, Bytes{4000}, Bytes{20'000}}) {
      CAPTURE(capacity);
      const std::array cases = {CacheCase{ReplayPolicy::lru, capacity}};
      const CaseCounts result = replay(source, cases).front();
      CHECK(all_epochs(result) == plain_lru(trace, capacity));
    }
  }
}

TEST_CASE("Belady's optimum has as many hits as the best of all ways to decide, on small traces of items of one size") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    const auto trace = random_trace(seed, 7, 40, 1);
    GivenTrace source(trace, 7);
    for (const std::size_t room : {0U, 1U, 2U, 3U, 4U}) {
      CAPTURE(room);
      const std::array cases = {CacheCase{ReplayPolicy::belady, room}};
      CHECK(replay(source, cases).front().epochs.front().counts.hits == most_hits(trace, room));
    }
  }
}

TEST_CASE("no policy has more hits than Belady's optimum, with items of one size") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    GivenTrace source(random_trace(seed, 300, 20'000, 1), 300);
    for (const Bytes capacity : {Bytes{10}, Bytes{100}, Bytes{250}}) {
      std::vector<CacheCase> cases;
      cases.reserve(all_policies.size());
      for (const ReplayPolicy policy : all_policies) cases.push_back({policy, capacity});
      const auto results = replay(source, cases);
      const std::uint64_t best = all_epochs(results.back()).hits;
      for (const CaseCounts& result : results) {
        CAPTURE(replay_policy_name(result.cache.policy));
        CHECK(all_epochs(result).hits <= best);
      }
      CHECK(all_epochs(results[2]).hits < best);
    }
  }
}

TEST_CASE("in epochs that use each item once, Belady's optimum has no more hits an epoch than MinIO holds items") {
  for (const OrderKind kind : {OrderKind::random, OrderKind::sequential}) {
    JobOrders jobs = some_jobs(2000, 5);
    jobs.order.kind = kind;
    for (const std::uint64_t room : {0U, 500U, 700U, 1300U, 2000U}) {
      CAPTURE(room);
      const auto results = replay_jobs(jobs, {{ReplayPolicy::minio, room * 100}, {ReplayPolicy::belady, room * 100}});
      CHECK(results[0].items_held == room);
      for (std::size_t epoch = 1; epoch < 5; ++epoch) {
        CHECK(results[0].epochs[epoch].counts.hits == room);
        CHECK(results[1].epochs[epoch].counts.hits <= room);
      }
    }
  }
}

TEST_CASE("cost-aware MinIO holds what costs storage most a byte, and no more than its threshold lets in") {
  std::vector<IndexRecord> records(1000);
  RandomStream random(8);
  for (IndexRecord& record : records) record.length = 1000 + random.below(100'000);
  const StorageCost cost{0.01, 1e-8};
  constexpr Bytes capacity = 10'000'000;
  JobOrders jobs = some_jobs(1000, 3);
  jobs.sizes.records = records;
  jobs.storage_cost = cost;
  const auto results =
      replay_jobs(jobs, {{ReplayPolicy::minio, capacity}, {ReplayPolicy::minio_cost_aware, capacity, admission_threshold(records, cost, capacity)}});
  CHECK(results[1].items_held > results[0].items_held * 2);  // small ones
  CHECK(results[1].epochs[2].counts.hits == results[1].items_held);
  CHECK(results[1].bytes_held <= capacity);
}

TEST_CASE("a trace in blocks of any size gives what it gives whole, and cases together what they give alone") {
  const auto trace = random_trace(4, 200, 10'000, 50);
  std::vector<CacheCase> cases;
  for (const ReplayPolicy policy : all_policies) {
    for (const Bytes capacity : {Bytes{500}, Bytes{2500}}) cases.push_back({policy, capacity});
  }
  GivenTrace whole(trace, 200, trace.size());
  const auto expected = replay(whole, cases);
  for (const std::size_t block : {1U, 3U, 31U, 32U, 33U, 4096U}) {
    CAPTURE(block);
    GivenTrace source(trace, 200, block);
    CHECK(replay(source, cases) == expected);
  }
  ReplayOptions one_by_one;
  one_by_one.state_bytes = 1;
  CHECK(replay(whole, cases, one_by_one) == expected);
  for (std::size_t i = 0; i < cases.size(); ++i) CHECK(replay(whole, std::span(cases).subspan(i, 1)).front() == expected[i]);
}

TEST_CASE("one of several servers asks for its part of each epoch, another one each time") {
  JobOrders jobs;
  jobs.samples = 1000;
  jobs.sizes.each = 10;
  jobs.epochs = 3;
  jobs.servers = 4;
  const auto source = make_order_source(jobs);
  std::array<std::vector<std::uint64_t>, 3> epochs;
  AccessBlock block;
  while (source->next(block))
    for (const CacheAccess& access : block.accesses) epochs[block.epoch_of_job[0]].push_back(access.key);
  for (auto& epoch : epochs) {
    std::ranges::sort(epoch);
    CHECK(epoch.size() == 250);
    CHECK(std::ranges::adjacent_find(epoch) == epoch.end());
  }
  std::vector<std::uint64_t> both;
  std::ranges::set_intersection(epochs[0], epochs[1], std::back_inserter(both));
  CHECK(std::abs(static_cast<double>(both.size()) - 62.5) < 5 * std::sqrt(62.5));
  jobs.servers = 0;
  CHECK_THROWS_AS(make_order_source(jobs), Error);
  jobs.servers = 1001;
  CHECK_THROWS_AS(make_order_source(jobs), Error);
  jobs.servers = 2;
  jobs.order.kind = OrderKind::sequential;
  CHECK_THROWS_AS(make_order_source(jobs), Error);
}

TEST_CASE("a source gives the same accesses each time, and another seed others") {
  JobOrders jobs = some_jobs(300, 2);
  jobs.jobs = 3;
  jobs.stagger = 0.3;
  const std::vector<CacheCase> cases = {{ReplayPolicy::lru, 20'000}, {ReplayPolicy::page_model_random, 20'000}, {ReplayPolicy::belady, 20'000}};
  const auto first = replay_jobs(jobs, cases);
  CHECK(replay_jobs(jobs, cases) == first);
  jobs.seed = 6;
  CHECK(replay_jobs(jobs, cases) != first);
}

TEST_CASE("a trace too long for Belady's optimum is refused with the reason") {
  ReplayOptions options;
  options.most_oracle_accesses = 999;
  CHECK_THROWS_WITH_AS(replay_jobs(some_jobs(500, 2), {{ReplayPolicy::belady, 1000}}, options), doctest::Contains("more than 999 accesses"), Error);
  options.most_oracle_accesses = 1000;
  CHECK(replay_jobs(some_jobs(500, 2), {{ReplayPolicy::belady, 1000}}, options).size() == 1);
}

TEST_CASE("progress counts every access of every case, and may end the replay") {
  ReplayOptions options;
  std::uint64_t last = 0;
  options.progress = [&last](std::uint64_t decided) { last = decided; };
  replay_jobs(some_jobs(5000, 2), {{ReplayPolicy::minio, 1000}, {ReplayPolicy::none, 0}}, options);
  CHECK(last == 20'000);
  options.progress = [](std::uint64_t) { throw Error("enough"); };
  CHECK_THROWS_WITH_AS(replay_jobs(some_jobs(5000, 2), {{ReplayPolicy::minio, 1000}}, options), "enough", Error);
}
