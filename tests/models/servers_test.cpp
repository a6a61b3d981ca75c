#include "models/whatif/servers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "../base/numbers.hpp"
#include "../fidelity/yang_cong_forms.hpp"
#include "base/random.hpp"
#include "core/cache_policy/page_cache_forms.hpp"
#include "core/partition/assignment.hpp"
#include "core/partition/data_parallel.hpp"

using namespace dsanalyze;
using testing::infinite;

namespace {

/// OpenImages over servers with hard disks, 65 % of it cached in each.
ServersSetup two_servers() {
  ServersSetup setup;
  setup.rates = {1600, 6000, 100000, 100};
  setup.servers = 2;
  setup.network = 16000;
  setup.cache_fraction = 0.65;
  setup.dataset_samples = 2'150'000;
  setup.dataset_bytes = 645e9;
  setup.local_batch = 1024;
  return setup;
}

}  // namespace

TEST_CASE("one server asks no network, whatever the partition") {
  ServersSetup setup = two_servers();
  setup.servers = 1;
  setup.network = 1e-9;
  for (const PartitionMode partition : {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality}) {
    setup.partition = partition;
    const ServersAnswer answer = answer_servers(setup);
    CHECK(answer.from_network == 0);
    CHECK(answer.network_bytes_server_epoch == 0);
    CHECK(answer.fetch == doctest::Approx(effective_fetch_rate(0.65, 100000, 100)));
    CHECK(answer.storage_bytes_server_epoch == doctest::Approx(0.35 * 645e9));
    CHECK(answer.resource == Resource::io);
    CHECK(answer.fetch_part == FetchPart::storage);
  }
}

TEST_CASE("servers on their own read what their cache lacks of their part of the dataset") {
  const ServersAnswer answer = answer_servers(two_servers());
  CHECK(answer.storage_bytes_server_epoch == doctest::Approx(0.35 * 645e9 / 2));
  CHECK(answer.from_network == 0);
  CHECK(answer.samples_per_s == doctest::Approx(2 * effective_fetch_rate(0.65, 100000, 100)));
}

TEST_CASE("a page cache of a server misses as its closed form of 1/p of the data says") {
  ServersSetup setup = two_servers();
  setup.cache = CacheKind::page_model_random;
  CHECK(answer_servers(setup).from_storage == random_replacement_misses_of_server(0.65, 2));
  setup.cache = CacheKind::lru;
  CHECK(answer_servers(setup).from_storage == lru_misses_of_server(0.65, 2));
  setup.cache = CacheKind::page;
  CHECK_THROWS_AS(answer_servers(setup), std::domain_error);
  setup.missed_share = 0.5;
  CHECK(answer_servers(setup).from_storage == 0.5);
}

TEST_CASE("caches that hold the dataset together leave nothing to storage, and the accelerators are the bottleneck") {
  ServersSetup setup = two_servers();
  for (const PartitionMode partition : {PartitionMode::partitioned, PartitionMode::locality}) {
    setup.partition = partition;
    const ServersAnswer answer = answer_servers(setup);
    CHECK(answer.storage_bytes_server_epoch == 0);
    CHECK(answer.resource == Resource::gpu);
    CHECK(answer.samples_per_s == doctest::Approx(2 * 1600));
  }
}

TEST_CASE("partitioned: local the server's own part, remote the others', storage the rest; replicas in what is spare") {
  ServersSetup setup = two_servers();
  setup.partition = PartitionMode::partitioned;
  setup.cache_fraction = 0.3;
  ServersAnswer answer = answer_servers(setup);
  CHECK(answer.from_cache == doctest::Approx(0.3));
  CHECK(answer.from_network == doctest::Approx(0.3));
  CHECK(answer.from_storage == doctest::Approx(0.4));
  CHECK(answer.network_bytes_server_epoch == doctest::Approx(0.3 * 645e9 / 2));
  setup.cache_fraction = 0.65;
  answer = answer_servers(setup);
  CHECK(answer.from_cache == doctest::Approx(0.65));
  CHECK(answer.from_network == doctest::Approx(0.35));
}

TEST_CASE("partitioned and locality take the longer of the two times that Eq 7 and Eq 8 add up, where a cache costs nothing") {
  ServersSetup setup = two_servers();
  setup.rates.cache = infinite;
  setup.storage_scope = StorageScope::shared;
  setup.servers = 16;
  setup.local_batch = 128;
  const auto epoch_seconds = [&setup](PartitionMode partition) {
    setup.partition = partition;
    return setup.dataset_samples / 16 / answer_servers(setup).fetch;
  };
  for (const double cached : {0.05, 1.0 / 16}) {
    setup.cache_fraction = cached;
    const double alpha = 16 * cached;
    for (const double network : {1e9, 1.0}) {
      CAPTURE(network);
      setup.network = network;
      DataParallel job{setup.dataset_samples, 16, 1600, 100, 16 * network, 6000, alpha};
      const double all = distributed_cache_seconds(job);
      const double read = (1 - alpha) * setup.dataset_samples / 100;
      CHECK(epoch_seconds(PartitionMode::partitioned) == doctest::Approx(std::max(read, all - read)));
      const double moved = mean_balance_traffic(16, 128, setup.dataset_samples, alpha) * setup.dataset_samples / (16 * network);
      CHECK(epoch_seconds(PartitionMode::locality) == doctest::Approx(std::max(read, moved)));
      setup.balance_from = BalanceFrom::storage;
      const double beta = mean_balance_traffic(16, 128, setup.dataset_samples, alpha);
      CHECK(epoch_seconds(PartitionMode::locality) == doctest::Approx(read + beta * setup.dataset_samples / 100));
      setup.balance_from = BalanceFrom::peers;
      if (alpha == 1) CHECK(moved == doctest::Approx(locality_seconds(job, mean_balance_traffic(16, 128, setup.dataset_samples, 1))));
    }
  }
  setup.cache_fraction = 0;
  CHECK(epoch_seconds(PartitionMode::none) == doctest::Approx(storage_read_seconds({setup.dataset_samples, 16, 1600, 100, 1, 6000, 0})));
}

TEST_CASE("locality moves only what balances the batches") {
  ServersSetup setup = two_servers();
  setup.servers = 256;
  setup.local_batch = 128;
  setup.cache_fraction = 1.0 / 256;
  setup.partition = PartitionMode::locality;
  const ServersAnswer locality = answer_servers(setup);
  setup.partition = PartitionMode::partitioned;
  const ServersAnswer partitioned = answer_servers(setup);
  CHECK(locality.balance_traffic == doctest::Approx(0.035).epsilon(0.03));
  CHECK(locality.from_network == doctest::Approx(locality.balance_traffic));
  CHECK(partitioned.balance_traffic == 0);
  CHECK(partitioned.from_network == doctest::Approx(255.0 / 256));
}

TEST_CASE("what balances locality's batches comes from storage where that is asked for, and then nothing crosses the network") {
  ServersSetup setup = two_servers();
  setup.servers = 4;
  setup.cache_fraction = 0.25;
  setup.dataset_samples = 12'800;
  setup.dataset_bytes = 1.28e9;
  setup.local_batch = 32;
  setup.partition = PartitionMode::locality;
  setup.balance_from = BalanceFrom::storage;
  const ServersAnswer answer = answer_servers(setup);
  // By hand: everything is held, so beta = sqrt(0.75 x 0.99 / (64 pi)).
  CHECK(answer.balance_traffic == doctest::Approx(0.0607691).epsilon(1e-5));
  CHECK(answer.from_storage == doctest::Approx(0.0607692).epsilon(1e-5));
  CHECK(answer.from_cache == doctest::Approx(0.9392308).epsilon(1e-6));
  CHECK(answer.from_network == 0);
  CHECK(answer.fetch == doctest::Approx(1620.525).epsilon(1e-5));
  CHECK(answer.storage_bytes_server_epoch == doctest::Approx(19446134).epsilon(1e-5));
  CHECK(answer.network_bytes_server_epoch == 0);

  // The network does not matter then; from peers it does, and storage serves only what no server holds.
  setup.network = 1e-3;
  CHECK(answer_servers(setup).fetch == answer.fetch);
  setup.balance_from = BalanceFrom::peers;
  CHECK(answer_servers(setup).fetch < 1);
  CHECK(answer_servers(setup).from_storage == 0);
  CHECK(answer_servers(setup).from_cache == doctest::Approx(answer.from_cache));

  setup.partition = PartitionMode::partitioned;
  const double from_peers = answer_servers(setup).from_storage;
  setup.balance_from = BalanceFrom::storage;
  CHECK(answer_servers(setup).from_storage == from_peers);
}

TEST_CASE("shared storage serves all servers at its one rate, up to 4,096 of them") {
  ServersSetup setup = two_servers();
  setup.rates = {1e9, 1e9, 1e9, 5000};
  setup.cache_fraction = 0;
  setup.storage_scope = StorageScope::shared;
  for (const std::uint32_t servers : {1U, 64U, most_servers}) {
    setup.servers = servers;
    CHECK(answer_servers(setup).samples_per_s == doctest::Approx(5000));
  }
  setup.storage_scope = StorageScope::server;
  CHECK(answer_servers(setup).samples_per_s == doctest::Approx(5000.0 * most_servers));
}

TEST_CASE("what takes the longest is the detail") {
  ServersSetup setup = two_servers();
  setup.rates.storage = 1e6;
  setup.partition = PartitionMode::partitioned;
  setup.network = 500;
  CHECK(answer_servers(setup).fetch_part == FetchPart::network);
  CHECK(answer_servers(setup).resource == Resource::io);
  setup.network = 1e9;
  CHECK(answer_servers(setup).fetch_part == FetchPart::cache);
  CHECK(fetch_part_name(FetchPart::cache) == doctest::String("cache"));
}

TEST_CASE("shares add up, and more servers, cache or network never train fewer samples a second") {
  for (const PartitionMode partition : {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality}) {
    for (const CacheKind cache : {CacheKind::none, CacheKind::minio, CacheKind::lru, CacheKind::page_model_random}) {
      for (const StorageScope scope : {StorageScope::server, StorageScope::shared}) {
        CAPTURE(partition_mode_name(partition));
        CAPTURE(cache_kind_name(cache));
        CAPTURE(storage_scope_name(scope));
        ServersSetup setup = two_servers();
        setup.partition = partition;
        setup.cache = cache;
        setup.storage_scope = scope;
        setup.local_batch = 64;
        setup.cache_fraction = 0.004;
        double before = 0;
        for (const std::uint32_t servers : {1U, 2U, 3U, 16U, 250U, 1000U, most_servers}) {
          setup.servers = servers;
          const ServersAnswer answer = answer_servers(setup);
          CHECK(answer.from_cache + answer.from_network + answer.from_storage == doctest::Approx(1));
          CHECK(answer.from_cache >= 0);
          CHECK(answer.samples_per_s >= before * (1 - 1e-9));
          before = answer.samples_per_s;
        }
        setup.servers = 3;
        before = 0;
        for (const double cached : {0.0, 0.1, 0.3, 0.7, 1.0}) {
          setup.cache_fraction = cached;
          const double speed = answer_servers(setup).samples_per_s;
          CHECK(speed >= before);
          before = speed;
        }
        setup.network *= 2;
        CHECK(answer_servers(setup).samples_per_s >= before);
      }
    }
  }
}

TEST_CASE("the server with the most to read holds the others up by what drawing its part makes likely") {
  // Simulated epochs: samples of two sizes, dealt at random, 40 % of each server's from storage.
  constexpr std::uint32_t servers = 8, dataset = 8000, epochs = 400;
  RandomStream random(1);
  std::vector<std::uint32_t> order(dataset);
  double excess = 0;
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    random_permutation(epoch, order);
    std::array<double, servers> read{};
    for (std::uint32_t place = 0; place < dataset; ++place) {
      if (random.uniform() < 0.4) read[place % servers] += order[place] % 2 == 0 ? 50 : 150;
    }
    excess += std::ranges::max(read) / (std::accumulate(read.begin(), read.end(), 0.0) / servers) - 1;
  }
  ServersSetup setup = two_servers();
  setup.servers = servers;
  setup.cache_fraction = 0.6;
  setup.dataset_samples = dataset;
  setup.rates = {1e9, 1e9, infinite, 100};
  CHECK(answer_servers(setup).slowest_excess == 0);
  setup.size_variation = 0.5;
  const ServersAnswer answer = answer_servers(setup);
  CHECK(answer.slowest_excess == doctest::Approx(excess / epochs).epsilon(0.03));
  CHECK(answer.samples_per_s == doctest::Approx(8 * 100 / 0.4 / (1 + answer.slowest_excess)));
  setup.storage_scope = StorageScope::shared;
  CHECK(answer_servers(setup).slowest_excess == 0);
}

TEST_CASE("what evens batches out differs from server to server as it does among real assignments") {
  constexpr std::uint32_t servers = 4, dataset = 4000, local_batch = 32, epochs = 300;
  std::vector<RankNumber> primaries(dataset);
  for (std::uint32_t sample = 0; sample < dataset; ++sample) primaries[sample] = static_cast<RankNumber>(sample % servers);
  const PartitionDirectory directory(primaries, servers);
  LocalityAssignment locality(directory, 0);
  std::vector<std::uint32_t> order(dataset);
  double excess = 0;
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    random_permutation(epoch, order);
    std::array<double, servers> lacked{};
    for (std::size_t begin = 0; begin + servers * local_batch <= dataset; begin += servers * local_batch) {
      locality.mine(std::span<const SampleId>(order).subspan(begin, servers * local_batch));
      for (std::uint32_t server = 0; server < servers; ++server)
        for (const SampleId sample : locality.part(server)) lacked[server] += directory.primary(sample) == server ? 0 : 1;
    }
    excess += std::ranges::max(lacked) / (std::accumulate(lacked.begin(), lacked.end(), 0.0) / servers) - 1;
  }
  ServersSetup setup = two_servers();
  setup.servers = servers;
  setup.partition = PartitionMode::locality;
  setup.cache_fraction = 1.0 / servers;
  setup.dataset_samples = dataset;
  setup.local_batch = local_batch;
  setup.rates = {1e9, 1e9, infinite, 100};
  setup.network = 100;
  setup.size_variation = 0;
  for (const BalanceFrom from : {BalanceFrom::peers, BalanceFrom::storage}) {
    setup.balance_from = from;
    CHECK(answer_servers(setup).slowest_excess == doctest::Approx(excess / epochs).epsilon(0.1));
  }
}

TEST_CASE("servers that each hold the whole dataset send nothing to even batches out, and read nothing") {
  ServersSetup setup = two_servers();
  setup.partition = PartitionMode::locality;
  setup.cache_fraction = 1;
  setup.size_variation = 0.5;
  for (const BalanceFrom from : {BalanceFrom::peers, BalanceFrom::storage}) {
    setup.balance_from = from;
    const ServersAnswer answer = answer_servers(setup);
    CHECK(answer.network_bytes_server_epoch == 0);
    CHECK(answer.storage_bytes_server_epoch == 0);
    CHECK(answer.from_cache == 1);
  }
  setup.balance_from = BalanceFrom::peers;
  setup.cache_fraction = 0.5;
  CHECK(answer_servers(setup).network_bytes_server_epoch > 0);
}

TEST_CASE("what evens batches out comes from a server's own replicas as often as among real assignments") {
  constexpr std::uint32_t servers = 4, dataset = 4000, local_batch = 32, epochs = 100;
  std::vector<RankNumber> primaries(dataset);
  for (std::uint32_t sample = 0; sample < dataset; ++sample) primaries[sample] = static_cast<RankNumber>(mix(sample, 7) % servers);
  const PartitionDirectory directory(primaries, servers, {2, std::vector<std::uint32_t>(servers, ReplicaRule::steps)});
  LocalityAssignment locality(directory, 0);
  std::vector<std::uint32_t> order(dataset);
  double lacked = 0;
  double all = 0;
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    random_permutation(epoch, order);
    for (std::size_t begin = 0; begin + servers * local_batch <= dataset; begin += servers * local_batch) {
      locality.mine(std::span<const SampleId>(order).subspan(begin, servers * local_batch));
      for (std::uint32_t server = 0; server < servers; ++server)
        for (const SampleId sample : locality.part(server)) {
          ++all;
          lacked += directory.is_holder(server, sample) ? 0 : 1;
        }
    }
  }
  ServersSetup setup = two_servers();
  setup.servers = servers;
  setup.partition = PartitionMode::locality;
  setup.cache_fraction = 2.0 / servers;
  setup.dataset_samples = dataset;
  setup.local_batch = local_batch;
  CHECK(answer_servers(setup).from_network == doctest::Approx(lacked / all).epsilon(0.05));
}

TEST_CASE("servers whose samples are alike and whose numbers of them are, too, fetch equally long") {
  ServersSetup setup = two_servers();
  setup.cache_fraction = 0.3;
  setup.size_variation = 0;
  setup.partition = PartitionMode::locality;
  CHECK(answer_servers(setup).slowest_excess == 0);
  setup.partition = PartitionMode::partitioned;
  CHECK(answer_servers(setup).slowest_excess > 0);
  setup.servers = 1;
  CHECK(answer_servers(setup).slowest_excess == 0);
}

TEST_CASE("servers that make no sense are refused by the field's name") {
  const auto refused = [](auto change) {
    ServersSetup setup = two_servers();
    change(setup);
    CHECK_THROWS_AS(answer_servers(setup), std::domain_error);
  };
  const double no_number = std::nan("");
  refused([](ServersSetup& setup) { setup.servers = 0; });
  refused([](ServersSetup& setup) { setup.servers = most_servers + 1; });
  for (const double bad : {0.0, -1.0, no_number}) {
    refused([bad](ServersSetup& setup) { setup.rates.ingestion = bad; });
    refused([bad](ServersSetup& setup) { setup.rates.prep = bad; });
    refused([bad](ServersSetup& setup) { setup.rates.cache = bad; });
    refused([bad](ServersSetup& setup) { setup.rates.storage = bad; });
    refused([bad](ServersSetup& setup) { setup.network = bad; });
    refused([bad](ServersSetup& setup) { setup.dataset_samples = bad; });
    refused([bad](ServersSetup& setup) { setup.dataset_bytes = bad; });
    refused([bad](ServersSetup& setup) { setup.local_batch = bad; });
  }
  for (const double bad : {-0.1, 1.1, no_number}) {
    refused([bad](ServersSetup& setup) { setup.cache_fraction = bad; });
    refused([bad](ServersSetup& setup) { setup.missed_share = bad; });
    if (bad != 1.1) refused([bad](ServersSetup& setup) { setup.size_variation = bad; });
  }
  refused([](ServersSetup& setup) {
    setup.partition = PartitionMode::locality;
    setup.local_batch = 2'000'000;
  });
  ServersSetup setup = two_servers();
  setup.network = -1;
  CHECK_THROWS_WITH(answer_servers(setup), "the network's rate N must be above 0, found -1");
}
