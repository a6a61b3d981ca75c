#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze::whatif {
namespace {

/// N of a link, in samples/s.
double network_rate(const RateModel& model, double bytes_per_s) {
  if (!model.dataset_bytes || !model.dataset_samples)
    throw UsageError(fmt::format("--network {}: bytes/s need the size of a sample: add --base dataset=146GiB,samples=1281167",
                                 format_bytes_per_second(bytes_per_s)));
  return bytes_per_s * static_cast<double>(*model.dataset_samples) / static_cast<double>(*model.dataset_bytes);
}

/// How the servers part the dataset, and, of locality alone, where from the batches are balanced.
struct Parting {
  PartitionMode mode = PartitionMode::none;
  BalanceFrom balance_from = BalanceFrom::peers;

  [[nodiscard]] bool balances() const { return mode == PartitionMode::locality; }
  [[nodiscard]] bool asks_peers() const { return mode == PartitionMode::partitioned || (balances() && balance_from == BalanceFrom::peers); }
};

std::vector<Parting> partings_of(const RateModel& model, const WhatIfQuestion& question) {
  const std::vector<BalanceFrom> balances = question.balances.empty() ? std::vector{model.balance_from} : question.balances;
  std::vector<Parting> partings;
  for (const PartitionMode mode : question.partitions.empty() ? std::vector{PartitionMode::none} : question.partitions) {
    if (mode == PartitionMode::locality)
      for (const BalanceFrom from : balances) partings.push_back({mode, from});
    else
      partings.push_back({mode});
  }
  const bool from_storage = std::ranges::find(question.balances, BalanceFrom::storage) != question.balances.end();
  if (from_storage && std::ranges::none_of(partings, &Parting::balances))
    throw UsageError(
        "--balance-from storage does not go together with any --partition but locality: only locality-aware batches are balanced; add --partition "
        "locality, or leave it out");
  return partings;
}

void require_servers_known(const RateModel& model, const WhatIfQuestion& question, const std::vector<Parting>& partings) {
  if (!model.dataset_bytes || !model.dataset_samples)
    throw UsageError("--servers: what each reads needs the dataset's size: add --base dataset=146GiB,samples=1281167");
  if (std::ranges::any_of(partings, &Parting::asks_peers) && question.networks.empty() && !model.network)
    throw UsageError(
        "--partition: servers that ask one another need the network between them: add --network 40Gbit/s, or --rates ...,N=..., or profile with "
        "--partition");
  const bool parted = std::ranges::any_of(partings, [](const Parting& parting) { return parting.mode != PartitionMode::none; });
  if (parted && model.misses.facts().kind != CacheKind::minio)
    throw UsageError("--partition: goes with the MinIO cache alone, for who holds what must not change; profile with --cache minio");
}

}  // namespace

std::vector<Step> server_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  const bool about_servers = !question.partitions.empty() || !question.balances.empty() || !question.scopes.empty() || !question.networks.empty();
  if (question.servers.empty() && about_servers)
    throw UsageError("--partition, --balance-from, --storage-scope and --network: among how many servers? Add --servers 2");
  if (question.servers.empty()) return steps;
  const std::vector<Parting> partings = partings_of(model, question);
  const std::vector<StorageScope> scopes = question.scopes.empty() ? std::vector{model.storage_scope} : question.scopes;
  std::vector<std::optional<double>> networks{std::nullopt};
  if (!question.networks.empty()) networks.assign(question.networks.begin(), question.networks.end());
  require_servers_known(model, question, partings);
  for (const std::uint32_t servers : question.servers) {
    for (const Parting& parting : partings) {
      for (const StorageScope scope : scopes) {
        for (const std::optional<double>& network : networks) {
          const std::optional<double> rate = network ? std::optional(network_rate(model, *network)) : std::nullopt;
          steps.emplace_back([servers, parting, scope, network, rate](Variant& variant) {
            variant.setup.servers = servers;
            variant.setup.partition = parting.mode;
            variant.setup.balance_from = parting.balance_from;
            variant.setup.storage_scope = scope;
            if (rate) variant.setup.network = *rate;
            variant.change.servers = servers;
            variant.change.partition = partition_mode_name(parting.mode);
            if (parting.balances()) variant.change.balance_from = balance_from_name(parting.balance_from);
            variant.change.storage_scope = storage_scope_name(scope);
            variant.change.network_bytes_per_s = network;
          });
        }
      }
    }
  }
  return steps;
}

}  // namespace dsanalyze::whatif
