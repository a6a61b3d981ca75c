#include "models/simulate/epoch_simulator.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

using namespace dsanalyze;

namespace {

constexpr double simulated_sample_bytes = 100'000;

Distribution always(double value) { return Distribution::constant(value, "test"); }

/// Nothing takes time.
EpochSetup nothing_to_wait_for() {
  EpochSetup setup;
  setup.samples = 6400;
  setup.sample_bytes = always(simulated_sample_bytes);
  setup.batch_size = 32;
  setup.storage.fetch_places = 128;
  return setup;
}

void set_prep_rate(EpochSetup& setup, double rate, std::uint32_t workers) {
  setup.prep.workers = workers;
  setup.prep.seconds_per_sample = always(workers / rate);
}

void set_storage_rate(EpochSetup& setup, double rate, std::uint32_t places) {
  setup.storage.kind = SimulatedStorage::Kind::measured;
  setup.storage.concurrency = places;
  setup.storage.request_seconds = always(places / rate);
}

void set_ingestion_rate(EpochSetup& setup, double rate, std::uint32_t accelerators, StepMode step) {
  setup.accelerators = {accelerators, rate / accelerators, step};
}

/// A configuration with F, P and G, no cache.
EpochSetup with_rates(double fetch, double prep, double ingestion) {
  EpochSetup setup = nothing_to_wait_for();
  set_storage_rate(setup, fetch, 8);
  set_prep_rate(setup, prep, 4);
  set_ingestion_rate(setup, ingestion, 2, StepMode::lockstep);
  return setup;
}

double steady_rate(const EpochSetup& setup) { return simulate_epochs(setup).steady.samples_per_s; }

/// An exponential distribution of that mean, without the last half of a thousandth.
Distribution exponential(double mean) {
  std::vector<double> quantiles;
  for (int i = 0; i <= 1000; ++i) quantiles.push_back(-std::log(1 - 0.9995 * i / 1000.0));
  const double scale = mean / Distribution(quantiles, "test").mean();
  for (double& quantile : quantiles) quantile *= scale;
  return {quantiles, "test"};
}

}  // namespace

TEST_CASE("the accelerators alone reach G, and wait for nothing") {
  for (const StepMode step : {StepMode::lockstep, StepMode::independent}) {
    EpochSetup setup = nothing_to_wait_for();
    set_ingestion_rate(setup, 8000, 4, step);
    const EpochSimulation simulation = simulate_epochs(setup);
    CHECK(simulation.steady.samples_per_s == doctest::Approx(8000).epsilon(1e-6));
    CHECK(simulation.steady.stall_p99_seconds == 0);
    CHECK(simulation.accelerator_busy == doctest::Approx(1));
    CHECK(simulation.first_batch_seconds == 0);
  }
}

TEST_CASE("k workers of constant service reach k / service, however prep is had") {
  for (const auto kind : {SimulatedPrep::Kind::threads, SimulatedPrep::Kind::emulated}) {
    for (const std::uint32_t workers : {1U, 3U, 24U}) {
      EpochSetup setup = nothing_to_wait_for();
      setup.prep.kind = kind;
      set_prep_rate(setup, 2000, workers);
      setup.prefetch_batches = 16;
      const EpochSimulation simulation = simulate_epochs(setup);
      CAPTURE(workers);
      CHECK(simulation.steady.samples_per_s == doctest::Approx(2000).epsilon(0.005));
      CHECK(simulation.prep_busy == doctest::Approx(1).epsilon(0.01));
    }
  }
}

TEST_CASE("more workers than cores prepare no faster than the cores") {
  EpochSetup setup = nothing_to_wait_for();
  set_prep_rate(setup, 6000, 6);
  setup.prep.cores = 2;
  CHECK(steady_rate(setup) == doctest::Approx(2000).epsilon(0.01));
}

TEST_CASE("k requests at once of constant service reach k / service") {
  EpochSetup setup = nothing_to_wait_for();
  set_storage_rate(setup, 3000, 8);
  CHECK(steady_rate(setup) == doctest::Approx(3000).epsilon(1e-6));
}

TEST_CASE("an emulated disk gives its bandwidth, or what its latency allows, or what fetch places and concurrency leave of it") {
  EpochSetup setup = nothing_to_wait_for();
  setup.storage.kind = SimulatedStorage::Kind::device;
  setup.storage.device = {simulated_sample_bytes * 1000, 0, 4};
  CHECK(steady_rate(setup) == doctest::Approx(1000).epsilon(1e-6));
  setup.storage.device = {simulated_sample_bytes * 1000, to_nanoseconds(0.009), 4};  // 10 ms a request, 4 at once
  CHECK(steady_rate(setup) == doctest::Approx(400).epsilon(0.005));
  setup.storage.concurrency = 2;
  CHECK(steady_rate(setup) == doctest::Approx(200).epsilon(0.005));
  setup.storage.concurrency = 0;
  setup.storage.fetch_places = 1;
  CHECK(steady_rate(setup) == doctest::Approx(100).epsilon(0.005));
  setup.cache = {CacheKind::minio, 0.5, SimulatedCache::Start::warm, 0, {}, 0};  // hits need no place, and leave none
  CHECK(steady_rate(setup) == doctest::Approx(200).epsilon(0.02));
}

TEST_CASE("far from the crossover throughput is the lowest of F, P and G") {
  for (const auto& [fetch, prep, ingestion] : {std::array{500.0, 2000.0, 3000.0}, {2000.0, 500.0, 3000.0}, {3000.0, 2000.0, 500.0}}) {
    CHECK(steady_rate(with_rates(fetch, prep, ingestion)) == doctest::Approx(500).epsilon(0.01));
  }
}

TEST_CASE("in lockstep, a prefetch depth below the accelerators starves them: P = G, 8 accelerators, depth 2 reach 0.57") {
  for (const std::uint32_t depth : {1U, 2U, 4U, 16U}) {
    EpochSetup setup = nothing_to_wait_for();
    setup.samples = 25'600;
    set_prep_rate(setup, 1000, 1);
    set_ingestion_rate(setup, 1000, 8, StepMode::lockstep);
    setup.prefetch_batches = depth;
    // While a step lasts, `depth` batches can be prepared; the other 8 - depth only after it.
    const double reached = depth < 8 ? 1 / (1 + (8.0 - depth) / 8) : 1;
    CAPTURE(depth);
    CHECK(steady_rate(setup) / 1000 == doctest::Approx(reached).epsilon(0.005));
  }
}

TEST_CASE("without a cache every epoch reads everything; a full one reads it once and leaves prep to bind; a MinIO cache hits what it holds") {
  EpochSetup setup = with_rates(500, 2000, 4000);
  const EpochSimulation none = simulate_epochs(setup);
  for (const SimulatedEpoch& epoch : none.epochs) CHECK(epoch.storage_bytes == static_cast<Bytes>(6400 * simulated_sample_bytes));

  setup.cache = {CacheKind::minio, 1, SimulatedCache::Start::empty, 0};
  const EpochSimulation full = simulate_epochs(setup);
  CHECK(full.epochs[0].samples_per_s == doctest::Approx(500).epsilon(0.02));
  CHECK(full.steady.storage_bytes == 0);
  CHECK(full.steady.samples_per_s == doctest::Approx(2000).epsilon(0.01));

  setup.cache.fraction = 0.35;
  CHECK(simulate_epochs(setup).steady.hits == 2240);
  setup.cache.start = SimulatedCache::Start::warm;
  CHECK(simulate_epochs(setup).epochs[0].hits == 2240);
}

TEST_CASE("a cost-aware MinIO cache holds the samples that its priority admits: the small ones, where requests cost") {
  EpochSetup setup = nothing_to_wait_for();
  std::vector<IndexRecord> records(setup.samples);
  for (std::size_t i = 0; i < records.size(); ++i) records[i].length = i % 4 == 0 ? 1000 : 9000;
  setup.records = records;
  setup.cache = {CacheKind::minio, 1, SimulatedCache::Start::empty, 0, {0.001, 0}, 0};
  setup.cache.least_priority = setup.cache.storage_cost.access_priority(2000);
  CHECK(simulate_epochs(setup).steady.hits == 1600);
}

TEST_CASE("copies out of the cache share the rate that they are given") {
  EpochSetup setup = nothing_to_wait_for();
  set_prep_rate(setup, 8000, 8);
  setup.cache = {CacheKind::minio, 1, SimulatedCache::Start::warm, simulated_sample_bytes * 900};
  CHECK(steady_rate(setup) == doctest::Approx(900).epsilon(0.01));
}

TEST_CASE("the first batch comes when its last sample is read and prepared") {
  EpochSetup setup = nothing_to_wait_for();
  setup.samples = 4;
  setup.batch_size = 4;
  SUBCASE("two reads of 10 ms at once, one worker, 5 ms a sample: read at 10, 10, 20, 20, prepared at 15, 20, 25, 30") {
    set_storage_rate(setup, 200, 2);
    set_prep_rate(setup, 200, 1);
    CHECK(simulate_epochs(setup).first_batch_seconds == doctest::Approx(0.030));
  }
  SUBCASE("a disk of 4 ms latency, 1 ms transfer, depth 2: read at 5, 6, 10, 11; prepared in half a ms") {
    setup.storage.kind = SimulatedStorage::Kind::device;
    setup.storage.device = {simulated_sample_bytes * 1000, to_nanoseconds(0.004), 2};
    set_prep_rate(setup, 2000, 1);
    CHECK(simulate_epochs(setup).first_batch_seconds == doctest::Approx(0.0115));
  }
}

TEST_CASE("an epoch's first read waits for the last of the epoch before: 6 samples, 4 at once, take two reads' time, not one and a half") {
  EpochSetup setup = nothing_to_wait_for();
  setup.samples = 6;
  setup.batch_size = 2;
  setup.prefetch_batches = 12;
  set_storage_rate(setup, 400, 4);
  set_ingestion_rate(setup, 1e9, 1, StepMode::lockstep);
  const EpochSimulation simulation = simulate_epochs(setup);
  CHECK(simulation.steady.seconds == doctest::Approx(0.020));
  CHECK(simulation.steady.boundary_stall_seconds == doctest::Approx(0.010).epsilon(0.001));
}

TEST_CASE("a worker takes its share of what waits at once: of 16 samples, the first of two workers takes 4, and batches of 2 wait for it") {
  EpochSetup setup = nothing_to_wait_for();
  setup.samples = 16;
  setup.batch_size = 2;
  setup.prefetch_batches = 7;
  setup.cache = {CacheKind::minio, 1, SimulatedCache::Start::warm, 0, {}, 0};
  set_prep_rate(setup, 200, 2);
  CHECK(simulate_epochs(setup).first_batch_seconds == doctest::Approx(0.020));
  setup.prefetch_batches = 1;  // 4 samples in 2 slots, one for each worker
  CHECK(simulate_epochs(setup).first_batch_seconds == doctest::Approx(0.010));
}

TEST_CASE("storage and prep of random times and c places in between reach c / (c + 1) of their rate, as a closed network of two queues does") {
  EpochSetup setup = nothing_to_wait_for();
  setup.samples = 100'000;
  setup.storage.kind = SimulatedStorage::Kind::measured;
  setup.storage.concurrency = 1;
  setup.storage.request_seconds = exponential(0.001);
  setup.prep.seconds_per_sample = exponential(0.001);
  for (const std::uint32_t places : {1U, 2U, 3U}) {
    setup.storage.fetch_places = places;
    CAPTURE(places);
    CHECK(steady_rate(setup) / 1000 == doctest::Approx(places / (places + 1.0)).epsilon(0.015));
  }
}

TEST_CASE("an accelerator that waits for its one worker waits the difference for each batch") {
  EpochSetup setup = nothing_to_wait_for();
  set_prep_rate(setup, 1000, 1);
  set_ingestion_rate(setup, 4000, 1, StepMode::lockstep);
  const EpochSimulation simulation = simulate_epochs(setup);
  CHECK(simulation.steady.stall_p50_seconds == doctest::Approx(32 * (1.0 / 1000 - 1.0 / 4000)).epsilon(0.01));
  CHECK(simulation.steady.stall_seconds == doctest::Approx(6.4 * 0.75).epsilon(0.01));
}

TEST_CASE("each sample is drawn once an epoch, in every order, through every cache") {
  for (const OrderKind order : {OrderKind::random, OrderKind::sequential, OrderKind::shards}) {
    for (const CacheKind cache : {CacheKind::none, CacheKind::minio, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux}) {
      for (const std::uint32_t accelerators : {1U, 3U}) {
        EpochSetup setup = with_rates(2000, 2100, 1900);
        setup.samples = 1037;
        setup.samples_per_shard = 100;
        setup.order.kind = order;
        if (order != OrderKind::random) setup.order.shuffle_buffer = 50;
        setup.storage.fetch_places = 200;
        setup.cache = {cache, 0.4, SimulatedCache::Start::empty, 0};
        setup.accelerators.count = accelerators;
        setup.accelerators.step = accelerators == 1 ? StepMode::independent : StepMode::lockstep;
        const EpochSimulation simulation = simulate_epochs(setup);
        REQUIRE(simulation.epochs.size() == 3);
        for (const SimulatedEpoch& epoch : simulation.epochs) CHECK(epoch.hits + epoch.misses == 1037);
        for (const SimulatedEpoch& epoch : simulation.epochs) CHECK(epoch.storage_bytes == epoch.misses * static_cast<Bytes>(simulated_sample_bytes));
      }
    }
  }
}

TEST_CASE("one seed gives one result, another seed another") {
  EpochSetup setup = with_rates(1000, 1000, 1000);
  setup.prep.seconds_per_sample = exponential(0.004);
  setup.sample_bytes = {{1e4, 1e5, 3e5}, "test"};
  const double first = steady_rate(setup);
  CHECK(steady_rate(setup) == first);
  setup.seed = 2;
  CHECK(steady_rate(setup) != first);
}

TEST_CASE("the verdict is the lowest of the stages alone, and stalls are differences of time a sample") {
  const auto verdict_of = [](const EpochSetup& setup) { return simulate_verdict(setup, simulate_epochs(setup)); };
  const SimulatedVerdict io = verdict_of(with_rates(500, 1000, 2000));
  CHECK(io.rule.resource == Resource::io);
  CHECK_FALSE(io.too_close);
  CHECK(io.fetch == doctest::Approx(500).epsilon(0.005));
  CHECK(io.prep == doctest::Approx(1000).epsilon(0.005));
  CHECK(io.ingestion == doctest::Approx(2000).epsilon(0.005));
  CHECK(io.stalls.compute == doctest::Approx(0.25).epsilon(0.02));
  CHECK(io.stalls.prep == doctest::Approx(0.25).epsilon(0.02));
  CHECK(io.stalls.fetch == doctest::Approx(0.5).epsilon(0.02));
  const SimulatedVerdict cpu = verdict_of(with_rates(2000, 500, 1000));
  CHECK(cpu.rule.resource == Resource::cpu);
  CHECK(cpu.fetch == doctest::Approx(2000).epsilon(0.005));
  CHECK(verdict_of(with_rates(2000, 1000, 500)).rule.resource == Resource::gpu);
  CHECK(verdict_of(with_rates(1005, 1000, 1300)).too_close);
}

TEST_CASE("where nothing is read, or prep takes no time, these do not bind") {
  EpochSetup setup = nothing_to_wait_for();
  set_ingestion_rate(setup, 1000, 1, StepMode::lockstep);
  const SimulatedVerdict verdict = simulate_verdict(setup, simulate_epochs(setup));
  CHECK(std::isinf(verdict.fetch));
  CHECK(std::isinf(verdict.prep));
  CHECK(verdict.rule.resource == Resource::gpu);
  CHECK(verdict.stalls.compute == doctest::Approx(1));
}
