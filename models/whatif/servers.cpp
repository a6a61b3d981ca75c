#include "servers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "base/statistics.hpp"
#include "core/cache_policy/page_cache_forms.hpp"
#include "core/partition/data_parallel.hpp"
#include "setup_checks.hpp"

namespace dsanalyze {
namespace {

void check(const ServersSetup& setup) {
  require_rates(setup.rates);
  if (setup.servers == 0 || setup.servers > most_servers)
    throw std::domain_error(fmt::format("the number of servers must lie between 1 and {}, found {}", most_servers, setup.servers));
  require_rate("the network's rate N", setup.network);
  require_share("the cached fraction", setup.cache_fraction);
  if (setup.missed_share) require_share("the missed share", *setup.missed_share);
  require_at_least("the dataset's samples", 1, setup.dataset_samples);
  require_at_least("the dataset's bytes", 1, setup.dataset_bytes);
  require_at_least("the local batch", 1, setup.local_batch);
  if (setup.size_variation) require_at_least("the variation of sizes", 0, *setup.size_variation);
}

/// Of the reads of a server that no other one serves.
double missed_share(const ServersSetup& setup) {
  if (setup.missed_share) return *setup.missed_share;
  switch (setup.cache) {
    case CacheKind::none:
      return 1;
    case CacheKind::minio:
      return 1 - setup.cache_fraction;
    case CacheKind::lru:
      return lru_misses_of_server(setup.cache_fraction, setup.servers);
    case CacheKind::page_model_random:
      return random_replacement_misses_of_server(setup.cache_fraction, setup.servers);
    case CacheKind::page:
    case CacheKind::page_model_linux:
      break;
  }
  throw std::domain_error(fmt::format("the cache {} has no closed form: give the share that it misses", cache_kind_name(setup.cache)));
}

/// Of the samples that a server is handed to even batches out, those that it holds too: where the caches together hold the dataset more than once,
/// what is left holds replicas, and with the whole dataset in each nothing has to come from elsewhere.
double held_by_receiver(const ServersSetup& setup) {
  if (setup.servers < 2) return 0;
  return std::clamp((setup.servers * setup.cache_fraction - 1) / (setup.servers - 1), 0.0, 1.0);
}

/// Where a server's samples come from.
void place_reads(const ServersSetup& setup, ServersAnswer& answer) {
  const double held = std::min(1.0, setup.servers * setup.cache_fraction);
  switch (setup.partition) {
    case PartitionMode::none:
      answer.from_storage = missed_share(setup);
      break;
    case PartitionMode::partitioned:
      answer.from_storage = 1 - held;
      answer.from_network = held - setup.cache_fraction;
      break;
    case PartitionMode::locality:
      answer.balance_traffic = mean_balance_traffic(setup.servers, setup.local_batch, setup.dataset_samples, held) * (1 - held_by_receiver(setup));
      answer.from_storage = 1 - held;
      (setup.balance_from == BalanceFrom::storage ? answer.from_storage : answer.from_network) += answer.balance_traffic;
      break;
  }
  answer.from_cache = 1 - answer.from_storage - answer.from_network;
}

/// Of the samples of each server, those that come from one source: `moved` of them to even batches out, the rest a number that only drawing its part
/// of the dataset makes vary, or, with locality, alike for all.
struct SourceShare {
  double all = 0;
  double moved = 0;
};

/// Of what a server reads from one source in an epoch: standard deviation over mean.
double read_variation(const ServersSetup& setup, const SourceShare& from) {
  if (from.all <= 0) return 0;
  const double samples = setup.dataset_samples / setup.servers;
  const double sizes = *setup.size_variation * *setup.size_variation * from.all;
  // What a server's batches lack is half of what they differ from b, whose signs add up to 0 in an epoch: of a normal draw the absolute value's
  // variance is pi / 2 - 1 times its mean's square.
  const double numbers = setup.partition == PartitionMode::locality ? (std::numbers::pi / 2 - 1) * from.moved * from.moved * setup.local_batch
                                                                    : from.all * (1 - from.all);
  return std::sqrt((sizes + numbers) / samples) / from.all;
}

/// Of the average sample of the server that fetches the longest.
SourceSeconds of_slowest(const ServersSetup& setup, const ServersAnswer& answer, SourceSeconds mean) {
  if (!setup.size_variation || setup.servers == 1) return mean;
  const bool balanced_from_storage = setup.balance_from == BalanceFrom::storage;
  const double moved = answer.balance_traffic;
  const double most = mean_of_largest(setup.servers);  // standard deviations above the mean server
  mean.network *= 1 + most * read_variation(setup, {answer.from_network, balanced_from_storage ? 0 : moved});
  if (setup.storage_scope == StorageScope::server)
    mean.storage *= 1 + most * read_variation(setup, {answer.from_storage, balanced_from_storage ? moved : 0});
  return mean;
}

}  // namespace

ServersAnswer answer_servers(const ServersSetup& setup) {
  check(setup);
  const double servers = setup.servers;
  ServersAnswer answer;
  place_reads(setup, answer);

  const double storage = setup.storage_scope == StorageScope::shared ? setup.rates.storage / servers : setup.rates.storage;
  const SourceSeconds seconds =
      source_seconds({answer.from_cache, answer.from_network, answer.from_storage}, setup.rates.cache, setup.network, storage);
  const SourceSeconds slowest = of_slowest(setup, answer, seconds);
  answer.fetch = 1 / slowest.fetch();
  answer.slowest_excess = slowest.fetch() / seconds.fetch() - 1;
  answer.fetch_part = slowest.longest();

  const BottleneckRule rule = bottleneck(answer.fetch, setup.rates.prep, setup.rates.ingestion);
  answer.resource = rule.resource;
  answer.next = rule.next;
  answer.samples_per_s_server = rule.samples_per_s;
  answer.samples_per_s = servers * rule.samples_per_s;

  const double read_bytes = setup.dataset_bytes / servers;
  answer.storage_bytes_server_epoch = answer.from_storage * read_bytes;
  answer.network_bytes_server_epoch = answer.from_network * read_bytes;
  return answer;
}

}  // namespace dsanalyze
