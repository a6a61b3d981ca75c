#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/rates.hpp"
#include "core/records/report_curves.hpp"
#include "core/records/whatif_result.hpp"
#include "core/sharing_modes.hpp"
#include "miss_model.hpp"
#include "models/fits/fits.hpp"

namespace dsanalyze {

/// What is known of a configuration: measured (from a profile) or typed in. One job on one server.
struct RateModel {
  Rates rates;
  std::shared_ptr<const ProfileResult> profile;  ///< through whose loader samples are moved; none of typed rates
  std::optional<double> network;                 ///< N: samples/s that one server gets from others' caches, measured or typed
  // 95 % half-widths as shares of each rate; 0 when not known.
  double ingestion_error = 0, prep_error = 0, cache_error = 0, storage_error = 0, network_error = 0;
  std::optional<double> transfer;  ///< H: samples/s that can be copied to all accelerators at once; nullopt: emulated ones, which copy in no time
  double transfer_error = 0;
  bool transfers_floats = false;            ///< samples are copied as float32
  std::optional<PrepServers> prep_servers;  ///< where a GPU can prepare, too; such that they give P as it was measured
  PrepPlace prep_place = PrepPlace::cpu;
  double gpu_share = 0;                ///< of each batch, as measured
  double run_error = 0;                ///< what another run adds, in the same measure: the others are of what varied within this one; 0: not known
  double cache_fraction = 0;           ///< of the dataset, as measured
  std::optional<double> cores;         ///< behind P
  std::optional<double> accelerators;  ///< behind G
  std::optional<double> batch_size;    ///< of one accelerator, behind G
  std::optional<Bytes> dataset_bytes;
  std::optional<std::uint64_t> dataset_samples;
  std::optional<double> size_variation;               ///< of the samples' sizes: standard deviation over mean
  std::optional<double> storage_bytes_per_s;          ///< behind S
  MissModel misses;                                   ///< of the cache: MinIO's unless the profile had another
  FittedScaling scaling = FittedScaling::linear(1);   ///< how P goes with cores; only its ratios count
  std::optional<double> measured_cores_high;          ///< the most cores measured: beyond, P is extrapolated with a warning
  std::vector<BatchPoint> ingestion_by_batch;         ///< G of all accelerators at other batch sizes
  bool any_batch_size = false;                        ///< G is the same at every batch size (an emulated accelerator)
  std::optional<StorageCurve> storage_curve;          ///< S over request size and concurrency
  std::optional<double> request_bytes;                ///< of S: a mean sample
  std::optional<double> fetch_concurrency;            ///< of S
  bool without_cache = false;                         ///< the profile had none: answers with one are MinIO's
  std::optional<double> observed;                     ///< samples/s that the user's own loader reaches
  std::optional<ProfileResult::Attained> attained;    ///< what the profile's full run reached beside what its rates give
  double interference = 0;                            ///< fraction of the full run's epoch that the rates do not explain
  bool emulated = false;                              ///< some of the rates are those of emulated devices
  bool typed = false;                                 ///< the rates were typed: no profile can be repeated for longer
  bool profiled_dependent = false;                    ///< these jobs drew dependently
  int profiled_jobs = 1;                              ///< that the profile ran side by side; the rates are the server's, and G is one job's
  int profiled_ranks = 1;                             ///< of the profile's job; the rates are one server's, and G is one rank's
  StorageScope storage_scope = StorageScope::server;  ///< whose S is, of several servers, where a question does not say
  BalanceFrom balance_from = BalanceFrom::peers;      ///< of locality among several servers, where a question does not say
  bool accelerator_shares_cores = false;              ///< the CPU trains: prep and training take each other's cores, which no answer knows
  bool enough_workers = false;                        ///< P is that of as many workers as it takes: of a launched training (hardware_model())
};

/// Bytes and bytes/s of a scaled profile (--scale) are scaled back up, so that answers speak of the configuration that it stands for.
/// Throws UsageError when the profile lacks P, C or S (names the run to add), or when what it says contradicts itself (F above C).
RateModel rate_model(const ProfileResult& profile);
/// "G=9800,P=6450,C=252000,S=4698±2%", in samples/s (also +-2%; G may be left out; N=..., P@8=... and G@128=... on other cores and batch sizes) and
/// "cores=24,accelerators=8,batch=512,dataset=146GiB,samples=1281167,cache=35%" (any part of it, or empty). Throws UsageError naming the part.
RateModel rate_model_from_text(const std::string& rates, const std::string& base);

/// "N=5400±2%" over what a profile says of the network between servers. Throws UsageError for any other rate: a profile has its own.
void take_typed_network(const std::string& rates, RateModel& model);

/// The lists that the user asked about; empty lists keep what was measured.
struct WhatIfQuestion {
  enum class Combine { one_at_a_time, every_combination };
  std::vector<ByteAmount> cache_sizes;
  struct CacheChange {
    CacheKind kind = CacheKind::minio;
    Admission admission = Admission::first;
  };
  std::vector<CacheChange> caches;
  std::vector<int> workers;  ///< num_workers of each rank: of a launched training alone (training_model.hpp)
  struct CoreChange {
    std::optional<double> cores;  ///< or a factor
    std::optional<double> factor;
  };
  std::vector<CoreChange> cores;
  std::vector<PrepPlace> prep_places;  ///< split: with the share that the model chooses
  std::vector<double> accelerator_speeds;
  std::vector<double> transfers;  ///< factors of H
  std::vector<double> accelerators;
  std::vector<double> batch_sizes;
  struct StorageChange {
    std::optional<double> bytes_per_s;  ///< or a factor
    std::optional<double> factor;
  };
  std::vector<StorageChange> storage;
  std::vector<OrderKind> orders;      ///< of reading: of a launched training alone
  std::vector<double> request_sizes;  ///< bytes a read: shards instead of files
  std::vector<double> concurrencies;  ///< reads in flight
  std::vector<std::uint32_t> jobs;    ///< of the server, each with accelerators of its own; with each of `shares`
  std::vector<JobSharing> shares;     ///< empty: none
  std::vector<std::uint32_t>
      servers;  ///< of one data-parallel job; with each of `partitions`, `scopes` and `networks`, locality with each of `balances` too
  std::vector<PartitionMode> partitions;
  std::vector<BalanceFrom> balances;
  std::vector<StorageScope> scopes;
  std::vector<double> networks;   ///< bytes/s of a server's link
  std::vector<std::string> find;  ///< cache, cores, workers, accelerators, storage
  Combine combine = Combine::one_at_a_time;
};

/// What every asked configuration reaches: of a profile, its samples are moved through the loader one by one by the epoch simulator (simulate());
/// typed rates have no queues and no scatter, and jobs and servers have closed forms of their own: there it is the lowest of F, P and G by Eq 3, 4
/// and the bottleneck rule [DS-Analyzer, App. C]. answers[0] is the configuration as measured, then one factor at a time (each list's values), best
/// first within the list of all; or every combination, in which each factor may also stay as measured. Pure; `progress` may throw.
/// Intervals are propagated from the rates' (quadrature through Eq 4; the lowest low and the lowest high of F, P and G). P goes with cores by the
/// fitted scalability law (core/scaling.hpp), G with the accelerators' number and speed linearly and with the batch size by the fitted step time, H
/// with the number of accelerators, each of which has a link of its own, S with request size and concurrency by its curve; of a cache that is not
/// MinIO the misses are the model's (MissModel). Several jobs and several servers: models/sharing.hpp, models/servers.hpp; rates are then totals of
/// all of them, and their speed-up is that of the lowest rates. Without G, the answers are what the data side can feed.
///
/// Findings: cache-not-minio, prep-extrapolated, storage-extrapolated, batch-not-measured, cache-larger-than-dataset, data-side-only,
/// too-close-to-call, page-cache-of-servers, impossible-left-out, extrapolated-far, interference, below-the-rates.
///
/// Advice, each with steps for the user's own loader: more-workers, add-cache, faster-storage, pack-into-shards, add-cores, prep-does-not-scale,
/// fewer-accelerators, smaller-transfers, share-prep (when jobs are asked about), nothing-to-gain, measure-accelerator, too-close.
///
/// Throws UsageError for a change that the model lacks the base of (says what to give), for jobs together with servers, for a balance from storage
/// without locality, for other numbers of workers, for another order of reading, and for more than 100,000 combinations, 1,000 of a profile.
WhatIfResult answer(const RateModel& model, const WhatIfQuestion& question, const std::function<void(double done)>& progress = {});

/// What answer() says of the profile, of dsanalyze's own loader or of a launched training, along each axis alone: at most 12 values, among them the
/// one now. Workers and cores go up to four times those there are. Pure; takes as long as 60 answers. Throws UsageError where rate_model() or
/// training_model() does.
ReportCurves report_curves(const ProfileResult& profile);

}  // namespace dsanalyze
