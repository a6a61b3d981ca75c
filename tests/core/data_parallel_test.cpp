#include "core/partition/data_parallel.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "../fidelity/yang_cong_forms.hpp"

using namespace dsanalyze;

namespace {

constexpr DataParallel sixteen{
    .samples = 1.28e6, .servers = 16, .training = 1000, .storage = 8000, .remote_caches = 64000, .prep = 4000, .cached_fraction = 0.5};

}  // namespace

TEST_CASE("Eq 1 to 8 by hand: 1.28 M samples on 16 servers") {
  CHECK(training_seconds(sixteen) == doctest::Approx(80));
  CHECK(storage_read_seconds(sixteen) == doctest::Approx(160));
  CHECK(prep_seconds(sixteen) == doctest::Approx(20));
  CHECK(serial_loading_seconds(sixteen) == doctest::Approx(180));
  CHECK(servers_until_storage_binds(sixteen) == doctest::Approx(8));
  CHECK(true_cost_seconds(sixteen) == doctest::Approx(160));
  CHECK(distributed_cache_seconds(sixteen) == doctest::Approx(80 + 10 * 15.0 / 16));
  CHECK(locality_seconds(sixteen, 0.05) == doctest::Approx(80 + 10 * 0.05));
}

TEST_CASE("Eq 6 turns from training to reading where Eq 5 says") {
  DataParallel job = sixteen;
  job.servers = servers_until_storage_binds(job);
  CHECK(training_seconds(job) == doctest::Approx(storage_read_seconds(job)));
  job.servers -= 1;
  CHECK(true_cost_seconds(job) == training_seconds(job));
  job.servers += 2;
  CHECK(true_cost_seconds(job) == storage_read_seconds(job));
}

TEST_CASE("one server has nothing to balance and nothing to ask others for") {
  CHECK(mean_balance_traffic(1, 64, 1e6, 1) == 0);
  DataParallel job = sixteen;
  job.servers = 1;
  job.remote_caches = 1e-300;
  CHECK(distributed_cache_seconds(job) == doctest::Approx(80));
}

TEST_CASE("what no server holds evens batches out, and little has to move") {
  // 80 % held by 4 servers, b = 16: mean 12.8, deviation 3.15, z = 1.02.
  CHECK(mean_balance_traffic(4, 16, 2000, 0.8) == doctest::Approx(0.0158).epsilon(0.01));
  CHECK(mean_balance_traffic(4, 16, 2000, 1) == doctest::Approx(0.085).epsilon(0.01));
  CHECK(mean_balance_traffic(4, 16, 2000, 0) == 0);
  CHECK_THROWS_AS(mean_balance_traffic(4, 16, 2000, 1.01), std::domain_error);
}

TEST_CASE("a global batch that is the whole dataset is balanced as it lies") { CHECK(mean_balance_traffic(10, 100, 1000, 1) == 0); }

TEST_CASE("numbers that make no sense are refused") {
  const double no_number = std::nan("");
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, no_number, infinite}) {
    DataParallel job = sixteen;
    job.samples = bad;
    CHECK_THROWS_AS(storage_read_seconds(job), std::domain_error);
    job = sixteen;
    job.storage = bad;
    CHECK_THROWS_AS(true_cost_seconds(job), std::domain_error);
    job = sixteen;
    job.servers = bad;
    CHECK_THROWS_AS(training_seconds(job), std::domain_error);
    job = sixteen;
    job.training = bad;
    CHECK_THROWS_AS(servers_until_storage_binds(job), std::domain_error);
    job = sixteen;
    job.prep = bad;
    CHECK_THROWS_AS(serial_loading_seconds(job), std::domain_error);
    job = sixteen;
    job.remote_caches = bad;
    CHECK_THROWS_AS(distributed_cache_seconds(job), std::domain_error);
    CHECK_THROWS_AS(mean_balance_traffic(bad, 64, 1e6, 1), std::domain_error);
    CHECK_THROWS_AS(mean_balance_traffic(2, bad, 1e6, 1), std::domain_error);
    CHECK_THROWS_AS(mean_balance_traffic(2, 64, bad, 1), std::domain_error);
  }
  for (const double bad : {-0.1, 1.1, no_number}) {
    CHECK_THROWS_AS(locality_seconds(sixteen, bad), std::domain_error);
    DataParallel job = sixteen;
    job.cached_fraction = bad;
    CHECK_THROWS_AS(distributed_cache_seconds(job), std::domain_error);
  }
  CHECK_THROWS_AS(mean_balance_traffic(10, 101, 1000, 1), std::domain_error);
}
