#include <doctest/doctest.h>

#include <array>
#include <string>

#include "core/cache_policy/page_cache_forms.hpp"
#include "datasets.hpp"
#include "models/whatif/servers.hpp"
#include "readers.hpp"
#include "rows.hpp"

using namespace dsanalyze;
using namespace dsanalyze::fidelity;

namespace {

constexpr double cached_by_each = 0.65;  // App. D.3

/// ResNet-50 on Config-HDD-1080Ti. The rates play no part in bytes.
ServersSetup servers_of(std::uint32_t servers, PartitionMode partition, CacheKind cache) {
  ServersSetup setup;
  setup.rates = {1600, 6000, 100'000, 100};
  setup.servers = servers;
  setup.network = 16'000;
  setup.cache_fraction = cached_by_each;
  setup.cache = cache;
  setup.partition = partition;
  setup.dataset_samples = 2'150'000;
  setup.dataset_bytes = open_images_gb * 1e9;
  setup.local_batch = 8 * 128;
  return setup;
}

double gigabytes_read(std::uint32_t servers, PartitionMode partition, CacheKind cache) {
  return answer_servers(servers_of(servers, partition, cache)).storage_bytes_server_epoch / 1e9;
}

/// The cached fraction at which random replacement reads so much a server.
double cached_that_reads(double gigabytes, std::uint32_t servers) {
  double low = 0;
  double high = 1;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (random_replacement_misses_of_server(middle, servers) * open_images_gb / servers > gigabytes ? low : high) = middle;
  }
  return low;
}

}  // namespace

TEST_CASE("Figure 18: one server reads 342 GB") {
  check("servers", "Fig 18b", "one server reads", 342, gigabytes_read(1, PartitionMode::none, CacheKind::page_model_random), {"GB", 0},
        within_share(0.05), "random replacement, closed form");
}

TEST_CASE("Figure 18: each of 2 to 4 servers reads between the online floor and 1.35 times it") {
  struct Line {
    std::uint32_t servers;
    double paper, floor;
  };
  for (const Line& line : {Line{2, 119, 113}, Line{3, 70, 75}, Line{4, 50, 56}}) {
    const double floor = gigabytes_read(line.servers, PartitionMode::none, CacheKind::minio);
    CHECK(floor == doctest::Approx(line.floor).epsilon(0.01));
    const double ours = gigabytes_read(line.servers, PartitionMode::none, CacheKind::page_model_random);
    const std::string each = "each of " + std::to_string(line.servers) + " servers reads";
    check("servers", "Fig 18b", each, line.paper, ours, {"GB", 0}, between(floor, 1.35 * floor),
          "each epoch another random part; random replacement, closed form; allowed: the online floor (1 - c) D / p to 1.35 × it");
    const double replayed = server_misses(ReplayPolicy::page_model_random, cached_by_each, line.servers) * open_images_gb / line.servers;
    CHECK(replayed == doctest::Approx(ours).epsilon(0.01));
  }
}

TEST_CASE("Figure 18: what each of 3 and 4 servers is said to read is below what any cache that does not know the next epoch's parts can read") {
  CHECK(gigabytes_read(3, PartitionMode::none, CacheKind::minio) > 70);
  CHECK(gigabytes_read(4, PartitionMode::none, CacheKind::minio) > 50);
  struct Line {
    std::uint32_t servers;
    double paper;
  };
  for (const Line& line : {Line{1, 342}, Line{2, 119}, Line{3, 70}, Line{4, 50}}) {
    check("servers", "Fig 18b", "cached share that would give the published " + std::to_string(static_cast<int>(line.paper)) + " GB", cached_by_each,
          cached_that_reads(line.paper, line.servers), percent(), reported(), "random replacement, closed form solved for c");
  }
}

TEST_CASE("Section 1: of two servers that cache 400 of 645 GiB each, each is said to read 119 GiB, less than the online floor") {
  ServersSetup setup = servers_of(2, PartitionMode::none, CacheKind::page_model_random);
  setup.cache_fraction = 400.0 / 645;
  check("servers", "Section 1", "each of 2 servers reads, 400 of 645 GiB cached", 119, answer_servers(setup).from_storage * 645 / 2, {"GiB", 0},
        reported(), "random replacement, closed form");
  setup.cache = CacheKind::minio;
  const double floor = answer_servers(setup).from_storage * 645 / 2;
  check("servers", "Section 1", "the same, online floor", 119, floor, {"GiB", 0}, reported(), "(1 - c) D / 2");
  CHECK(floor > 119);
}

TEST_CASE("Figure 18: with a partitioned cache 2 to 4 servers read nothing") {
  for (const std::uint32_t servers : {2U, 3U, 4U}) {
    check("servers", "Fig 18, App. D.3", "each of " + std::to_string(servers) + " servers reads, partitioned cache", 0,
          gigabytes_read(servers, PartitionMode::partitioned, CacheKind::minio), {"GB", 0}, within(0), "65 % cached in each");
    CHECK(answer_servers(servers_of(servers, PartitionMode::partitioned, CacheKind::minio)).resource != Resource::io);
  }
  CHECK(answer_servers(servers_of(2, PartitionMode::none, CacheKind::minio)).resource == Resource::io);
}
