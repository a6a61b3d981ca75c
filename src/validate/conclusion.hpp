#pragma once

#include <string>
#include <vector>

#include "core/records/whatif_result.hpp"
#include "validate.hpp"

namespace dsanalyze {

/// What binds by the runs: their differences of time a sample, as in a profile [DS-Analyzer, section 3.2].
struct MeasuredVerdict {
  std::string bottleneck;
  bool too_close = false;
};
/// `full` and `cached` in samples/s with their intervals; `ingestion` G. Differences below `least` (a share) tell nothing.
MeasuredVerdict measured_verdict(double full, double cached, double ingestion, double least);

/// The prediction that counts of an answer, and its interval.
struct Prediction {
  double samples_per_s = 0;
  Interval ci95;
  std::string bottleneck;
  bool too_close = false;
};
Prediction prediction_of(const WhatIfAnswer& answer);

/// Errors, coverage and whether the verdict was right, once the measured rate is in. `now` is the answer at the speed that prep had at that minute.
void judge(WhatIfAnswer& answer, const WhatIfAnswer& now, const MeasuredVerdict& verdict);
/// Of all answers.
WhatIfValidation conclude_validation(const std::vector<WhatIfAnswer>& answers, const ValidationOptions& options);

}  // namespace dsanalyze
