#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "core/cache_policy/cache_policy.hpp"
#include "core/partition/data_parallel.hpp"
#include "core/rates.hpp"
#include "core/sharing_modes.hpp"

namespace dsanalyze {

constexpr std::uint32_t most_servers = 4096;

/// One data-parallel job on equal servers: in every epoch each server trains on a random 1/p of the dataset, another one each time.
struct ServersSetup {
  /// Of ONE server: G, P, C. S of one server's storage, or with StorageScope::shared of the one that all read from. Without G the answer is what the
  /// data side can feed.
  Rates rates;
  std::uint32_t servers = 1;
  PartitionMode partition = PartitionMode::none;
  BalanceFrom balance_from = BalanceFrom::peers;  ///< of PartitionMode::locality
  StorageScope storage_scope = StorageScope::server;
  /// N: samples/s that ONE server gets from others' caches while all do so. [Yang-Cong]'s R_c is p N, and so is R_b with
  /// BalanceFrom::peers; with BalanceFrom::storage R_b is the storage's R.
  double network = std::numeric_limits<double>::infinity();

  double cache_fraction = 0;           ///< of the dataset, in ONE server's cache
  CacheKind cache = CacheKind::minio;  ///< of PartitionMode::none; the others are MinIO's (who holds what must not change)
  /// The share of a server's reads that miss its cache, for PartitionMode::none, where it is known better (replayed, measured).
  std::optional<double> missed_share;

  double dataset_samples = 0;
  double dataset_bytes = 0;
  /// Of the samples' sizes: standard deviation over mean. Not known: each server has as much to read as the others.
  std::optional<double> size_variation;
  double local_batch = 1;  ///< samples of one server's share of a global batch: b of [Yang-Cong]; for locality
};

struct ServersAnswer {
  double samples_per_s = 0;         ///< of all servers together
  double samples_per_s_server = 0;  ///< of each
  double fetch = 0;                 ///< F of one server, samples/s: of the one that has the most to fetch in an epoch, for which all wait at its end
  // Where a server's samples come from; the three add up to 1.
  double from_cache = 0;    ///< its own
  double from_network = 0;  ///< others' caches
  double from_storage = 0;
  double balance_traffic = 0;             ///< beta; 0 but for locality
  double slowest_excess = 0;              ///< share by which that one fetches longer than the mean one; 0 where size_variation is not known
  double storage_bytes_server_epoch = 0;  ///< that one server reads from storage in an epoch
  double network_bytes_server_epoch = 0;  ///< that one server gets from others
  Resource resource = Resource::gpu;
  FetchPart fetch_part = FetchPart::storage;  ///< what takes the longest; the detail when io binds
  Resource next = Resource::gpu;
};

/// The closed form, min(F, P, G) with F of SourceSeconds: local / C, and the longer of remote / N and storage / S; shared storage gives each server
/// S / p, so that its part is D / R an epoch, whatever p: the plateau of [Yang-Cong] Eq 2.
/// - none: the server's cache misses as a reader of 1/p of the data does: 1 - x (MinIO), or more (core/page_cache_forms.hpp); rest local.
/// - partitioned: all caches together hold alpha = min(1, p x) [CoorDL, section 4.2]; local x, remote alpha - x, storage 1 - alpha [Yang-Cong, Eq 7].
///   What a cache has room for beyond its part holds replicas.
/// - locality: storage 1 - alpha, remote beta, the rest local [Yang-Cong, Eq 8], beta from mean_balance_traffic() (Eq 8 has alpha beta: there what
///   no server holds evens nothing out). With BalanceFrom::storage nothing is remote, and storage serves 1 - alpha + beta: R_b = R.
/// Servers meet at each epoch's end and wait for the one that had the most to read. Of the n = D / p samples of each, those that come from one source
/// (a share q) have bytes of the variance (v^2 q + q (1 - q)) / n in units of a sample's, v being size_variation; with locality, where m of them are
/// moved to even batches out and the others' number is alike, (v^2 q + (pi / 2 - 1) m^2 b) / n. The most of p such exceed their mean by the
/// variance's root times mean_of_largest(p). Not of shared storage, whose rate is one for all. Throws std::domain_error naming the field for a rate
/// that is not above 0, a fraction outside [0, 1], no servers or more than most_servers, no dataset, for locality a global batch larger than the
/// dataset, and for a cache without a closed form when missed_share is not given. Pure.
ServersAnswer answer_servers(const ServersSetup& setup);

}  // namespace dsanalyze
