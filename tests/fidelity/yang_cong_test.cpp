#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "core/partition/data_parallel.hpp"
#include "datasets.hpp"
#include "models/whatif/servers.hpp"
#include "rows.hpp"
#include "yang_cong_forms.hpp"

using namespace dsanalyze;
using namespace dsanalyze::fidelity;

namespace {

constexpr std::array<std::uint32_t, 5> server_counts{16, 32, 64, 128, 256};

struct LocalBatch {
  std::uint32_t local;
  double paper;  // section V-C: medians of Fig 6, "approximately"
};
constexpr std::array<LocalBatch, 3> batches{{{32, 0.069}, {64, 0.048}, {128, 0.034}}};

/// Deficits over the global batch, mean over batches drawn one after the other from a random order, as section V-C describes its simulation: sample s
/// is held by server s mod p.
double simulated_traffic(std::uint32_t servers, std::uint32_t local, std::span<const std::uint32_t> order) {
  const std::uint32_t global = servers * local;
  const auto drawn = static_cast<std::uint32_t>(std::min<std::size_t>(order.size() / global, 60));
  std::vector<std::uint32_t> held(servers);
  std::uint64_t deficits = 0;
  for (std::uint32_t batch = 0; batch < drawn; ++batch) {
    std::ranges::fill(held, 0);
    for (const std::uint32_t sample : order.subspan(std::size_t{batch} * global, global)) ++held[sample % servers];
    for (const std::uint32_t count : held) deficits += count < local ? local - count : 0;
  }
  return static_cast<double>(deficits) / (static_cast<double>(drawn) * global);
}

/// ResNet50 on Lassen's kind of machine: shared storage, a cache that holds its part, accelerators and prep that never bind.
double epoch_seconds(std::uint32_t servers, PartitionMode partition) {
  ServersSetup setup;
  setup.rates = {1e9, 1e9, 1e6, 20'000};
  setup.servers = servers;
  setup.storage_scope = StorageScope::shared;
  setup.network = 50'000;
  setup.partition = partition;
  setup.cache = CacheKind::none;
  setup.cache_fraction = partition == PartitionMode::none ? 0 : 1.0 / servers;
  setup.dataset_samples = imagenet_samples;
  setup.dataset_bytes = 150e9;
  setup.local_batch = 128;
  return imagenet_samples / answer_servers(setup).samples_per_s;
}

}  // namespace

TEST_CASE("Figure 6: the closed form of balance traffic is the mean of a simulation, within 0.3 points") {
  std::vector<std::uint32_t> order(imagenet_samples);
  random_permutation(1, order);
  for (const LocalBatch& batch : batches) {
    for (const std::uint32_t servers : server_counts) {
      CAPTURE(batch.local);
      CAPTURE(servers);
      const double simulated = simulated_traffic(servers, batch.local, order);
      CHECK(std::abs(mean_balance_traffic(servers, batch.local, imagenet_samples, 1) - simulated) < 0.003);
    }
  }
}

TEST_CASE("Figure 6: balance traffic of 6.9, 4.8 and 3.4 % for local batches of 32, 64 and 128, on 16 to 256 servers") {
  std::vector<std::uint32_t> order(imagenet_samples);
  random_permutation(2, order);
  for (const LocalBatch& batch : batches) {
    for (const std::uint32_t servers : {server_counts.front(), server_counts.back()}) {
      const std::string what = "b = " + std::to_string(batch.local) + ", p = " + std::to_string(servers);
      check("locality", "[Yang-Cong] Fig 6", what, batch.paper, mean_balance_traffic(servers, batch.local, imagenet_samples, 1), percent(2),
            within(0.003), "closed form, nothing fitted; D of ImageNet-1k");
      check("locality", "[Yang-Cong] Fig 6", what + ", simulated", batch.paper, simulated_traffic(servers, batch.local, order), percent(2),
            within(0.003), "fixed seed");
    }
    for (const std::uint32_t servers : server_counts)
      CHECK(std::abs(mean_balance_traffic(servers, batch.local, imagenet_samples, 1) - batch.paper) < 0.003);
  }
}

TEST_CASE("Eq 2, 6 and Figure 8: the regular loader's epoch no longer gets shorter with servers, the locality-aware one's does") {
  check("locality", "[Yang-Cong] Eq 2, Fig 1, 8", "regular loader, epoch on 256 servers over that on 16 (\"plateau\")", 1,
        epoch_seconds(256, PartitionMode::none) / epoch_seconds(16, PartitionMode::none), {"×", 2}, within(0.001), "one storage for all");
  check("locality", "[Yang-Cong] Eq 8, Fig 8", "locality-aware loader, the same (\"scales well\")", 1.0 / 16,
        epoch_seconds(256, PartitionMode::locality) / epoch_seconds(16, PartitionMode::locality), {"×", 4}, within_share(0.1),
        "each server's cache holds its part, network a server as it is; paper: in proportion");
}

TEST_CASE("Eq 4 adds what a pipeline overlaps: larger than either part, at most twice the longer") {
  const DataParallel job{imagenet_samples, 16, 1500, 20'000, 16 * 50'000.0, 4000, 1};
  const double serial = serial_loading_seconds(job);
  CHECK(serial == doctest::Approx(storage_read_seconds(job) + prep_seconds(job)));
  CHECK(serial > std::max(storage_read_seconds(job), prep_seconds(job)));
  CHECK(locality_seconds(job, mean_balance_traffic(16, 128, imagenet_samples, 1)) < 0.05 * distributed_cache_seconds(job));
}
