#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsanalyze/models/whatif.hpp"

namespace dsanalyze::whatif {

/// The rates and the cache of one set-up.
struct Setup {
  std::optional<double> ingestion;
  double prep = 0;
  double cache = 0;
  double storage = 0;
  double cache_fraction = 0;
};
Setup as_measured(const RateModel& model);

/// A rate with its 95 % interval.
struct RateEstimate {
  double value = 0;
  Interval ci95;
};

RateEstimate with_error(double value, double relative_error);

/// F, P and G of a set-up with intervals propagated from the model's relative errors, and what follows from them.
struct Evaluation {
  std::optional<RateEstimate> ingestion;
  RateEstimate prep;
  RateEstimate fetch;
  BottleneckRule rule;
  Interval ci95;           ///< of rule.samples_per_s
  bool too_close = false;  ///< the two lowest rates' intervals overlap
};
Evaluation evaluate(const RateModel& model, const Setup& setup);

/// F, P or G. Without G, Resource::gpu is not to be asked for.
const RateEstimate& rate_of(Resource resource, const Evaluation& evaluation);
/// "10,208 ± 200 samples/s [P]"
std::string rate_with_letter(const RateEstimate& rate, char letter);
/// "prep binds at 10,208 samples/s [P]", "the accelerators bind at ...", "fetch binds at ...".
std::string binding_sentence(Resource resource, const Evaluation& evaluation);
/// "G is 9,800 ...; P is ...; F is ..." one for each known rate, for advice.
std::vector<std::string> rates_as_evidence(const Evaluation& evaluation);

/// The smallest storage rate S at which F reaches `target`: 1/S = (1/target - x/C) / (1 - x), from Eq 4; nullopt when the cached part alone is too
/// slow.
std::optional<double> storage_rate_for(double target, double x, double cache_rate);
/// The smallest factor of P that reaches `target`, as whole cores when their number is known.
struct CoresNeeded {
  double factor = 1;
  std::optional<double> cores;
};
CoresNeeded cores_for(double target, const RateModel& model);
/// Rounded up to a tenth of a percent, so that what is read is enough: "54.4 %".
std::string share_at_least(double share);

WhatIfFound find(const std::string& question, const RateModel& model);
/// Advice for the set-up as measured.
std::vector<AdviceRecord> advise(const RateModel& model);

}  // namespace dsanalyze::whatif
