#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job_mix_result.hpp"
#include "result.hpp"
#include "search_result.hpp"

namespace dsanalyze {

/// "dsanalyze.whatif/1".
struct WhatIfChange {
  std::optional<double> cache_fraction;
  std::optional<Bytes> cache_bytes;
  std::string cache;           ///< another kind; empty: as measured
  std::optional<int> workers;  ///< num_workers of each rank of a launched training
  std::optional<double> cores;
  std::optional<double> cores_factor;       ///< when the number of cores behind P is not known
  std::optional<PrepPlace> prep_place{};    ///< where prep runs
  std::optional<double> accelerator_speed;  ///< factor
  std::optional<double> transfer_factor;    ///< of copies to the GPUs
  std::optional<double> accelerators;
  std::optional<double> storage_bytes_per_s;
  std::optional<double> storage_factor;
  std::string order;  ///< of reading; empty: as found
  std::optional<double> request_bytes;
  std::optional<double> fetch_concurrency;
  std::optional<double> batch_size;
  std::optional<std::uint32_t> jobs;
  std::string share;  ///< with jobs
  std::optional<std::uint32_t> servers;
  std::string partition;      ///< with servers
  std::string balance_from;   ///< with locality; empty: not known
  std::string storage_scope;  ///< with servers
  std::optional<double> network_bytes_per_s;

  bool operator==(const WhatIfChange&) const = default;
};

/// Beyond so many times what was measured of a resource, an answer is an estimate, never certain.
inline constexpr double most_extrapolation = 4;

struct WhatIfAnswer {
  WhatIfChange change;              // empty: as measured
  std::optional<double> ingestion;  ///< G
  double prep = 0;                  ///< P
  double fetch = 0;                 ///< F; 0: not known, of a launched training
  double cache = 0;                 ///< C; the same
  double storage = 0;               ///< S; the same
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double epoch_seconds = 0;  ///< 0 when the dataset's size is not known
  std::string bottleneck;    ///< gpu, cpu, io
  std::string detail{};      ///< of a launched training: prep, latency, cores, accelerator, outside, delivery, storage
  bool too_close = false;    ///< the lowest rate's interval overlaps that of another
  double extrapolation = 1;  ///< by which factor some resource of it goes beyond what was measured
  StallShares stalls;        ///< meaningful when G is known
  double speedup = 1;        ///< over the unchanged configuration, by the same model
  /// Of several jobs: rates above are their totals, an epoch is each one's own.
  struct Jobs {
    double samples_per_s_each = 0;
    double reads_over_dataset = 0;     ///< bytes from storage an epoch, all jobs together, over the dataset's
    double prepared_over_dataset = 0;  ///< samples prepared an epoch over the dataset's
    double prepared_batches = 0;       ///< held at most
  };
  std::optional<Jobs> jobs;
  /// Of several servers: rates above are their totals.
  struct Servers {
    double samples_per_s_each = 0;
    std::string fetch_detail;  ///< storage, cache or network: what takes most of the fetch time
    double storage_bytes_server_epoch = 0;
    double network_bytes_server_epoch = 0;
    double slowest_excess = 0;  ///< share by which the server that has the most to fetch in an epoch fetches longer than the mean one
  };
  std::optional<Servers> servers;
  /// Waits in the steady state, where samples were moved through the loader one by one. Without, the answer is the lowest of F, P and G.
  struct Simulated {
    double stall_p50_seconds = 0;
    double stall_p99_seconds = 0;
    double stall_epoch_boundary_seconds = 0;
    double first_batch_seconds = 0;
  };
  std::optional<Simulated> simulated;
  /// By running it on this machine.
  struct Measured {
    double samples_per_s = 0;
    Interval ci95_samples_per_s;
    double speed = 1;  ///< of prep at that minute (of a launched training: as found), over the profile's: what drift is not in the errors below
    double error = 0;  ///< (predicted - measured) / measured
    double error_as_profiled = 0;  ///< the same with the drift
    bool covered = false;          ///< the prediction's 95 % interval holds the measured rate
    std::uint64_t windows = 0;
    std::uint64_t void_windows = 0;
    std::string bottleneck;
    bool verdict_right = false;  ///< the same bottleneck, or either side is inconclusive
  };
  std::optional<Measured> measured;
  std::string not_measured;  ///< why this machine cannot run it

  [[nodiscard]] bool far_extrapolated() const { return extrapolation > most_extrapolation; }
};

/// min(F, P, G), or min(F, P) without G  [DS-Analyzer, App. C.2]. Of an answer that has F.
inline double lowest_rate(const WhatIfAnswer& answer) { return bottleneck(answer.fetch, answer.prep, answer.ingestion).samples_per_s; }

/// Of all answers that were run.
struct WhatIfValidation {
  std::uint64_t measured = 0;
  std::uint64_t not_measured = 0;
  double median_error = 0;  ///< of absolute values
  double worst_error = 0;
  double covered_share = 0;
  double void_share = 0;  ///< of the windows
  double worst_error_as_profiled = 0;
  double slowest = 1, fastest = 1;  ///< prep's speed while the configurations ran, over the profile's
  std::uint64_t verdicts_right = 0;
  std::string outcome;  ///< passed, failed, undecided
  std::string reason;   ///< a sentence
};

struct WhatIfFound {
  std::string question;         ///< cache, cores, accelerators, storage
  std::optional<double> value;  ///< nullopt: no value removes the stall
  std::string unit;
  std::string then;  ///< the bottleneck then, a sentence
};

struct WhatIfResult {
  ToolRecord tool;
  std::string source;  ///< path of the profile, or "typed rates"
  std::string model;   ///< how samples were moved, and what to bear in mind
  Rates rates;
  std::optional<double> network;  ///< N
  double base_cache_fraction = 0;
  std::optional<ProfileResult::Attained> attained;  ///< of the profile's full run; answers[0] is what its rates give
  double interference = 0;                          ///< fraction of the full run's epoch that lies between the two
  std::vector<WhatIfAnswer> answers;                ///< answers[0] is the configuration as measured
  std::vector<WhatIfFound> found;
  std::vector<AdviceRecord> advice;
  std::optional<SearchResult> search;          ///< with --search
  std::optional<WhatIfValidation> validation;  ///< with --validate
  std::optional<WhatIfJobMix> job_mix;         ///< with --job-mix
  std::vector<Finding> findings;
};
std::string to_json(const WhatIfResult& result);
/// Strict: throws UsageError that names the field. Unknown fields are ignored (fields are only added within a version). There is at least one answer.
WhatIfResult whatif_from_json(std::string_view text, const std::string& source);

}  // namespace dsanalyze
