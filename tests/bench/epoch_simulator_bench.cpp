// How long the epoch simulator takes: ImageNet-1k (1.28 M samples), 24 cores, 8 accelerators, one core of this machine.
//
//   epoch_simulator_bench [--epochs N] [--rounds N] [--json FILE]     seconds an epoch (of N, 3) in each configuration, the median of rounds (5)

#include <cmath>

#include "base/random.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "models/simulate/epoch_simulator.hpp"

namespace dsanalyze::bench {
namespace {

struct Case {
  std::string name;
  EpochSetup setup;
};

/// A log-normal distribution as 101 quantiles.
Distribution spread_around(double mean, double deviation) {
  std::vector<double> draws(100'001);
  RandomStream random(1);
  for (double& draw : draws) draw = mean * std::exp(deviation * random.normal() - deviation * deviation / 2);
  std::ranges::sort(draws);
  std::vector<double> quantiles;
  for (std::size_t i = 0; i < draws.size(); i += 1000) quantiles.push_back(draws[i]);
  return {quantiles, "bench"};
}

EpochSetup imagenet() {
  EpochSetup setup;
  setup.samples = 1'281'167;
  setup.sample_bytes = Distribution::constant(114e3, "bench");
  setup.batch_size = 512;
  setup.prefetch_batches = 16;
  setup.storage.kind = SimulatedStorage::Kind::device;
  setup.storage.device = {530e6, 90'000, 32};
  setup.storage.fetch_places = 592;
  setup.cache = {CacheKind::minio, 0.35, SimulatedCache::Start::empty, 0};
  setup.prep = {SimulatedPrep::Kind::emulated, 24, 0, Distribution::constant(24 / 10'208.0, "bench")};
  setup.accelerators = {8, 1400, StepMode::lockstep};
  return setup;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"MinIO 35 %, emulated disk, emulated prep", imagenet()});
  all.push_back({"the same, independent accelerators", imagenet()});
  all.back().setup.accelerators.step = StepMode::independent;
  all.push_back({"LRU 35 %", imagenet()});
  all.back().setup.cache.kind = CacheKind::lru;
  all.push_back({"page-model:linux 35 %", imagenet()});
  all.back().setup.cache.kind = CacheKind::page_model_linux;
  all.push_back({"no cache", imagenet()});
  all.back().setup.cache = {};
  all.push_back({"measured times, log-normal sizes", imagenet()});
  EpochSetup& measured = all.back().setup;
  measured.sample_bytes = spread_around(114e3, 0.5);
  measured.storage.kind = SimulatedStorage::Kind::measured;
  measured.storage.concurrency = 16;
  measured.storage.request_seconds = spread_around(16 / 4698.0, 0.5);
  measured.prep.kind = SimulatedPrep::Kind::threads;
  measured.prep.seconds_per_sample = spread_around(24 / 10'208.0, 0.4);
  return all;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--epochs", "--rounds", "--json"});
  const auto rounds = static_cast<int>(arguments.number("--rounds", 5));
  const auto epochs = static_cast<std::uint64_t>(arguments.number("--epochs", 3));
  const Timing timing = system_timing();
  fmt::print("1,281,167 samples, 24 cores, 8 accelerators, {} epochs\n{:<44}{:>30}{:>14}{:>14}\n", epochs, "", "seconds an epoch", "ns a sample",
             "samples/s");
  std::vector<std::string> records;
  for (Case& each : cases()) {
    each.setup.epochs = epochs;
    std::vector<double> seconds;
    double rate = 0;
    for (int round = 0; round < rounds; ++round) {
      const Nanoseconds begun = timing.clock->now();
      rate = simulate_epochs(each.setup).steady.samples_per_s;
      seconds.push_back(to_seconds(timing.clock->now() - begun) / static_cast<double>(epochs));
    }
    fmt::print("{:<44}{:>30}{:>14.0f}{:>14.0f}\n", each.name, spread(seconds, 3), 1e9 * median(seconds) / each.setup.samples, rate);
    std::fflush(stdout);
    records.push_back(
        fmt::format(R"({{"set_up": "{}", {}, "epochs": {}, "samples_per_s": {}}})", each.name, json_list("seconds_an_epoch", seconds), epochs, rate));
  }
  if (arguments.has("--json")) write_text(arguments.text("--json", ""), fmt::format("[{}]\n", fmt::join(records, ",\n ")));
  return 0;
}

}  // namespace
}  // namespace dsanalyze::bench

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::bench::run); }
