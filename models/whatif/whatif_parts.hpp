#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/records/result.hpp"
#include "servers.hpp"
#include "sharing.hpp"
#include "whatif.hpp"

namespace dsanalyze::whatif {

/// Throws UsageError, which names the option, where the value is 0, negative or no number.
void require_positive(double value, const std::string& option);

/// The rates and the cache of one configuration: those of one server, G that of one job.
struct Setup {
  std::optional<double> ingestion;
  std::optional<double> transfer;  ///< H
  double prep = 0;
  std::optional<PrepServers> prep_servers;  ///< prep follows from them where they are known
  PrepPlace prep_place = PrepPlace::cpu;
  double gpu_share = 0;
  double cache = 0;
  double storage = 0;
  double cache_fraction = 0;
  double prep_error = 0;  ///< as a share
  double network = std::numeric_limits<double>::infinity();
  std::uint32_t jobs = 1;
  JobSharing sharing = JobSharing::none;
  std::uint32_t servers = 1;
  PartitionMode partition = PartitionMode::none;
  BalanceFrom balance_from = BalanceFrom::peers;
  StorageScope storage_scope = StorageScope::server;
  double local_batch = 1;                   ///< samples of one server's share of a global batch
  std::shared_ptr<const MissModel> misses;  ///< of another kind of cache than the model's
};
Setup as_measured(const RateModel& model);
/// Of a setup with prep_servers: prep as they give it where prep is.
void take_prep(Setup& setup);
/// P, its error, and what of it is the GPU's, with so many cores. `model` has cores.
void take_cores(const RateModel& model, double cores, Setup& setup);

/// A rate with its 95 % interval.
struct RateEstimate {
  double value = 0;
  Interval ci95;
};

RateEstimate with_error(double value, double relative_error);

/// F, P and G of a configuration, totals of all its jobs or servers, with intervals propagated from the model's relative errors, and what it reaches.
struct Evaluation {
  std::optional<RateEstimate> ingestion;  ///< G, or H where that is lower
  bool by_transfer = false;               ///< it is H
  RateEstimate prep;
  RateEstimate fetch;
  double lowest = 0;       ///< min(F, P, G)
  BottleneckRule rule;     ///< where it is inconclusive, `next` is the lowest of the rates that the lowest cannot be told from
  Interval ci95;           ///< of rule.samples_per_s
  bool too_close = false;  ///< the lowest rate's interval overlaps that of another
  StallShares stalls;      ///< where G is known
  std::optional<WhatIfAnswer::Simulated> simulated;
  std::optional<JobsAnswer> jobs;
  std::optional<ServersAnswer> servers;
};
/// What follows from the rates alone: the lowest of them, which nothing exceeds  [DS-Analyzer, Eq 1 to 4 and App. C].
Evaluation bounds(const RateModel& model, const Setup& setup);
/// F of the configuration as measured with another cache.
double fetch_rate(const RateModel& model, double cache_fraction);
/// The smallest cached fraction at which F reaches `target` samples/s; nullopt when even C does not.
std::optional<double> cache_fraction_for(const RateModel& model, double target);

/// Whether the bottleneck is inconclusive; rates without intervals that are equal are a tie, of which nothing is open.
bool inconclusive(const Evaluation& evaluation);
/// "1 core", "8 cores".
std::string cores_text(double cores);
/// F, P or G. Without G, Resource::gpu is not to be asked for.
const RateEstimate& rate_of(Resource resource, const Evaluation& evaluation);
/// "10,208 ± 200 samples/s [P]"
std::string rate_with_letter(const RateEstimate& rate, char letter);
/// G or H, of what an evaluation has under `ingestion`.
constexpr char letter_of_ingestion(const Evaluation& evaluation) { return evaluation.by_transfer ? 'H' : 'G'; }
/// "prep is the bottleneck at 10,208 samples/s [P]", "the accelerators are the bottleneck at ...", and so on for copies to the GPU and fetch.
std::string binding_sentence(Resource resource, const Evaluation& evaluation);
/// "G is 9,800 ...; P is ...; F is ..." one for each known rate, for advice.
std::vector<std::string> rates_as_evidence(const Evaluation& evaluation);

/// The smallest storage rate S at which F reaches `target`, from Eq 4; nullopt when the cached part alone is too slow, or nothing comes from storage.
std::optional<double> storage_rate_for(double target, const RateModel& model);
/// The smallest factor of P that reaches `target`, as whole cores when their number is known.
struct CoresNeeded {
  double factor = 1;
  std::optional<double> cores;
};
/// nullopt when by the scalability law none do.
std::optional<CoresNeeded> cores_for(double target, const RateModel& model);
/// Whether some cores reach `target`, which by the fit none do, where one of the measured points lies at an end of its 95 % interval.
bool cores_may_reach(double target, const RateModel& model);
/// Rounded up to a tenth of a percent, so that what is read is enough: "54.4 %".
double fraction_at_least(double share);
std::string share_at_least(double share);

/// One configuration and how it differs from the measured one.
struct Variant {
  Setup setup;
  WhatIfChange change;
};
/// One value of one list: what it does to a configuration.
using Step = std::function<void(Variant&)>;
/// bounds(), and what the configuration reaches of them where the model has a profile and the configuration is one job on one server: simulate().
Evaluation evaluate(const RateModel& model, const Variant& variant);
/// The steps of each list that was asked about. What cannot be taken at its word is added to `findings`.
std::vector<std::vector<Step>> steps_of(const RateModel& model, const WhatIfQuestion& question, std::vector<Finding>& findings);
/// Of them the list of servers: each number of them with each way of parting the dataset, storage scope and network.
std::vector<Step> server_steps(const RateModel& model, const WhatIfQuestion& question);

/// The configuration that a question about one value asks about, what it brings, and what cannot be taken at its word of it.
struct Asked {
  Variant variant;
  Evaluation evaluation;
  std::vector<Finding> findings;
};
Asked ask(const RateModel& model, const WhatIfQuestion& question);

/// Why the changed configuration cannot be, a clause; nullopt where it can.
std::optional<std::string> impossible(const RateModel& model, const Variant& variant);
/// By which factor the change goes beyond what was measured of some resource; 1 where it stays within.
double extrapolation(const RateModel& model, const WhatIfChange& change);
/// extrapolated-far: above most_extrapolation.
std::optional<Finding> far_extrapolation_finding(double most);

/// "minio", "minio:cost-aware", "lru", ...
std::string cache_name(const MissModel::Facts& facts);

/// Of two rates, the bottleneck once the third is known not to be it.
Resource lower_of_prep_and_ingestion(const Evaluation& base);
Resource lower_of_fetch_and_ingestion(const Evaluation& base);

/// `base`: evaluate() of the configuration as measured.
WhatIfFound find(const std::string& question, const RateModel& model, const Evaluation& base);
/// Advice for the configuration as measured, each with the steps to take in a loader: more-workers, then what lifts the binding resource (add-cache,
/// faster-storage, pack-into-shards; add-cores, prep-does-not-scale; smaller-transfers; nothing-to-gain), then fewer-accelerators. Without G only
/// measure-accelerator beside more-workers; where the bottleneck is inconclusive, only too-close.
std::vector<AdviceRecord> advise(const RateModel& model, const Evaluation& base);
/// more-workers: the user's own loader (RateModel::observed) reaches less than this machine feeds.
std::optional<AdviceRecord> more_workers_advice(const RateModel& model, const Evaluation& base);
/// pack-into-shards: by the storage curve, reads as large as the largest measured bring more, by more than the intervals.
std::optional<AdviceRecord> pack_into_shards_advice(const RateModel& model, const Evaluation& base);
/// share-prep: so many jobs on this server reach more with coordinated prep, by more than the intervals.
std::optional<AdviceRecord> share_prep_advice(const RateModel& model, std::uint32_t jobs);

/// What to do in PyTorch's DataLoader, NVIDIA DALI and WebDataset to follow an advice, by its code; empty for a code with which there is nothing to
/// do in a loader. Names are those of PyTorch 2, DALI 1 and 2, WebDataset 0.2 and later.
std::vector<LoaderStep> loader_steps(std::string_view advice_code);

}  // namespace dsanalyze::whatif
