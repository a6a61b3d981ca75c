#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsanalyze/core/rates.hpp"
#include "dsanalyze/core/result.hpp"

namespace dsanalyze {

/// What the closed form knows of a set-up: measured (from a profile) or typed in.
struct RateModel {
  Rates rates;
  // 95 % half-widths as shares of each rate; 0 when not known.
  double ingestion_error = 0, prep_error = 0, cache_error = 0, storage_error = 0;
  double cache_fraction = 0;           ///< of the dataset, as measured
  std::optional<double> cores;         ///< behind P
  std::optional<double> accelerators;  ///< behind G
  std::optional<Bytes> dataset_bytes;
  std::optional<std::uint64_t> dataset_samples;
  std::optional<double> storage_bytes_per_s;  ///< behind S
  std::string cache = "minio";                ///< the cache of the profile; the closed form is MinIO's
  std::optional<double> measured_cores_high;  ///< the most cores measured: beyond, P is extrapolated with a warning
  bool emulated = false;                      ///< some of the rates are those of emulated devices
};

/// Bytes and bytes/s of a scaled profile (--scale) are scaled back up, so that answers speak of the set-up that it stands for.
/// Throws UsageError when the profile lacks P, C or S (names the run to add).
RateModel rate_model(const ProfileResult& profile);
/// "G=9800,P=735,C=28000,S=4698±2%" (also +-2%; G may be left out) and "cores=24,accelerators=8,dataset=146GiB,samples=1281167,cache=35%" (any
/// part of it, or empty). Throws UsageError naming the part.
RateModel rate_model_from_text(const std::string& rates, const std::string& base);

/// The lists that the user asked about; empty lists keep what was measured.
struct WhatIfQuestion {
  enum class Combine { one_at_a_time, every_combination };
  std::vector<ByteAmount> cache_sizes;
  struct CoreChange {
    std::optional<double> cores;  ///< or a factor
    std::optional<double> factor;
  };
  std::vector<CoreChange> cores;
  std::vector<double> accelerator_speeds;
  std::vector<double> accelerators;
  struct StorageChange {
    std::optional<double> bytes_per_s;  ///< or a factor
    std::optional<double> factor;
  };
  std::vector<StorageChange> storage;
  std::vector<std::string> find;  ///< cache, cores, accelerators, storage
  Combine combine = Combine::one_at_a_time;
};

/// Eq 3, 4 and the bottleneck rule [DS-Analyzer, App. C] on every asked set-up. Pure. answers[0] is the set-up as measured, then one factor at a time
/// (each list's values), best first within the list of all; or every combination, in which each factor may also stay as measured. Intervals are
/// propagated from the rates' (quadrature through Eq 4; the lowest low and the lowest high of F, P and G).
/// P scales with cores, G with the accelerators' number and speed, linearly. Without G, the answers are what the data side can feed: min(F, P).
/// Findings: closed-form-is-minio, prep-extrapolated, cache-larger-than-dataset, data-side-only, too-close-to-call.
/// Advice: add-cache, faster-storage, add-cores, nothing-to-gain, measure-accelerator.
/// Throws UsageError for a change that the model lacks the base of (says what to give) and for more than 100,000 combinations.
WhatIfResult answer(const RateModel& model, const WhatIfQuestion& question);

}  // namespace dsanalyze
