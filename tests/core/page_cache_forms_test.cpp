#include "core/cache_policy/page_cache_forms.hpp"
#include "../base/sanitizers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "policy_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

constexpr double near = 0.005;

/// The share missed from epoch `first` on by jobs that take turns, job j a share `stagger` x j of an epoch late, each in orders of its own.
double jobs_miss(CacheKind kind, double cached, std::uint32_t jobs, double stagger) {
  constexpr std::uint32_t epochs = 10;
  constexpr std::uint32_t first = 5;
  PolicyRig cache(kind, static_cast<Bytes>(cached * page_model_items), page_model_items);
  std::vector<std::vector<std::uint32_t>> orders(jobs);
  std::uint64_t hits = 0;
  std::uint64_t accesses = 0;
  for (std::uint64_t now = 0; now < std::uint64_t{epochs} * page_model_items; ++now) {
    for (std::uint32_t job = 0; job < jobs; ++job) {
      const auto late = static_cast<std::uint64_t>(stagger * job * page_model_items);
      if (now < late) continue;
      const std::uint64_t at = (now - late) % page_model_items;
      if (at == 0) orders[job] = epoch_order(mix(now, job), page_model_items);
      const bool hit = cache.access(orders[job][at], 1) == CacheDecision::hit;
      if (now < std::uint64_t{first} * page_model_items) continue;
      ++accesses;
      hits += hit ? 1 : 0;
    }
  }
  return 1 - static_cast<double>(hits) / static_cast<double>(accesses);
}

/// The share missed by a server that reads a random 1/servers of the items in each epoch.
double server_misses(CacheKind kind, double cached, std::uint32_t servers) {
  PolicyRig cache(kind, static_cast<Bytes>(cached * page_model_items), page_model_items);
  std::uint64_t hits = 0;
  std::uint64_t accesses = 0;
  for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
    const std::vector<std::uint32_t> order = epoch_order(epoch, page_model_items);
    for (std::uint32_t at = 0; at < page_model_items / servers; ++at) {
      const bool hit = cache.access(order[at], 1) == CacheDecision::hit;
      if (epoch < 20) continue;
      ++accesses;
      hits += hit ? 1 : 0;
    }
  }
  return 1 - static_cast<double>(hits) / static_cast<double>(accesses);
}

}  // namespace

TEST_CASE("several jobs on one cache in orders of their own miss as the closed forms say, whether they began together or not" *
          doctest::skip(testing::too_often)) {
  for (const double cached : {0.25, 0.65}) {
    for (const std::uint32_t jobs : {2U, 8U}) {
      for (const double stagger : {0.0, 1.0 / jobs}) {
        CAPTURE(cached);
        CAPTURE(jobs);
        CAPTURE(stagger);
        CHECK(std::abs(jobs_miss(CacheKind::page_model_random, cached, jobs, stagger) - random_replacement_misses_of_jobs(cached, jobs)) < 0.01);
        CHECK(std::abs(jobs_miss(CacheKind::lru, cached, jobs, stagger) - lru_misses_of_jobs(cached, jobs)) < 0.01);
      }
    }
  }
}

TEST_CASE("a server that reads a random part of the dataset misses as the closed forms say") {
  for (const double cached : {0.35, 0.65}) {
    for (const std::uint32_t servers : {1U, 2U, 4U}) {
      CAPTURE(cached);
      CAPTURE(servers);
      CHECK(std::abs(server_misses(CacheKind::page_model_random, cached, servers) - random_replacement_misses_of_server(cached, servers)) < near);
      CHECK(std::abs(server_misses(CacheKind::lru, cached, servers) - lru_misses_of_server(cached, servers)) < near);
    }
  }
}

TEST_CASE("plain LRU in shuffled order misses 1 - c - (1 - c) ln(1 - c)") {
  for (const double cached : {0.25, 0.5, 0.75}) {
    CAPTURE(cached);
    CHECK(std::abs(server_misses(CacheKind::lru, cached, 1) - lru_misses(cached)) < near);
  }
}

TEST_CASE("one server and one job are the plain forms, very many of either are the floor of 1 - c") {
  for (const double cached : {0.1, 0.35, 0.9}) {
    CHECK(random_replacement_misses_of_server(cached, 1) == random_replacement_misses(cached));
    CHECK(random_replacement_misses(cached) == doctest::Approx(cached * std::log(cached + (1 - cached) * std::exp(1 / cached))));
    CHECK(random_replacement_misses_of_jobs(cached, 1) == random_replacement_misses(cached));
    CHECK(lru_misses_of_server(cached, 1) == lru_misses(cached));
    CHECK(lru_misses_of_jobs(cached, 1) == lru_misses(cached));
    CHECK(random_replacement_misses_of_server(cached, 4096) == doctest::Approx(1 - cached).epsilon(0.002));
    CHECK(random_replacement_misses_of_jobs(cached, 1000) == doctest::Approx(1 - cached).epsilon(0.01));
    CHECK(lru_misses_of_server(cached, 4096) == doctest::Approx(1 - cached).epsilon(0.002));
    CHECK(lru_misses_of_jobs(cached, 1000) == doctest::Approx(1 - cached).epsilon(0.01));
  }
}

TEST_CASE("no cache misses everything, the whole dataset nothing, and a smaller cache never less") {
  const auto check = [](auto misses) {
    CHECK(misses(0.0) == 1);
    CHECK(misses(1.0) == 0);
    double before = 1;
    for (double cached = 0.0005; cached < 1; cached += 0.0105) {
      const double m = misses(cached);
      CHECK(m <= before + 1e-9);
      CHECK(m >= 1 - cached - 1e-9);
      before = m;
    }
  };
  check(random_replacement_misses);
  check(random_replacement_misses_even);
  check(random_replacement_misses_in_order);
  check(lru_misses);
  for (const std::uint32_t many : {2U, 8U, 100U}) {
    check([many](double cached) { return random_replacement_misses_of_jobs(cached, many); });
    check([many](double cached) { return random_replacement_misses_of_server(cached, many); });
    check([many](double cached) { return lru_misses_of_jobs(cached, many); });
    check([many](double cached) { return lru_misses_of_server(cached, many); });
  }
}

TEST_CASE("fractions outside 0 to 1, and no readers, are refused") {
  const double no_number = std::nan("");
  for (const double bad : {-0.1, 1.1, no_number}) {
    CHECK_THROWS_AS(random_replacement_misses(bad), std::domain_error);
    CHECK_THROWS_AS(random_replacement_misses_even(bad), std::domain_error);
    CHECK_THROWS_AS(random_replacement_misses_in_order(bad), std::domain_error);
    CHECK_THROWS_AS(random_replacement_misses_of_jobs(bad, 2), std::domain_error);
    CHECK_THROWS_AS(lru_misses(bad), std::domain_error);
    CHECK_THROWS_AS(lru_misses_of_jobs(bad, 2), std::domain_error);
    CHECK_THROWS_AS(lru_misses_of_server(bad, 2), std::domain_error);
  }
  CHECK_THROWS_AS(random_replacement_misses_of_jobs(0.5, 0), std::domain_error);
  CHECK_THROWS_AS(lru_misses_of_jobs(0.5, 0), std::domain_error);
  for (const double bad : {0.5, -1.0, no_number, std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(random_replacement_misses_of_server(0.5, bad), std::domain_error);
    CHECK_THROWS_AS(lru_misses_of_server(0.5, bad), std::domain_error);
  }
}
