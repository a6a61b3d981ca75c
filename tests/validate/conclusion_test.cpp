#include "validate/validate.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace dsanalyze;

namespace {

WhatIfAnswer answered(double predicted, double measured, const char* predicted_bound = "cpu") {
  WhatIfAnswer answer;
  answer.ingestion = 5000;
  answer.samples_per_s = predicted;
  answer.bottleneck = predicted_bound;
  answer.ci95_samples_per_s = {predicted * 0.98, predicted * 1.02};
  answer.measured = WhatIfAnswer::Measured{};
  answer.measured->samples_per_s = measured;
  answer.measured->windows = 10;
  return answer;
}

WhatIfAnswer judged(double predicted, double measured, const MeasuredVerdict& verdict = {"cpu", false}) {
  WhatIfAnswer answer = answered(predicted, measured);
  judge(answer, WhatIfAnswer(answer), verdict);
  return answer;
}

}  // namespace

TEST_CASE("the bottleneck is found by the differences between full, cached and the accelerators' rate") {
  CHECK(measured_verdict(500, 1000, 2000, 0.015).bottleneck == "io");
  CHECK(measured_verdict(998, 1000, 2000, 0.015).bottleneck == "cpu");
  CHECK(measured_verdict(1990, 1995, 2000, 0.015).bottleneck == "gpu");
  CHECK_FALSE(measured_verdict(500, 1000, 2000, 0.015).too_close);
  CHECK(measured_verdict(980, 1000, 2000, 0.015).too_close);
  CHECK(measured_verdict(1000, 1000, 1020, 0.015).too_close);
  CHECK_FALSE(measured_verdict(1000, 1000, 1100, 0.015).too_close);
}

TEST_CASE("errors are the prediction's over the measured rate") {
  const WhatIfAnswer answer = judged(1010, 1000);
  CHECK(std::abs(answer.measured->error - 0.01) < 1e-12);
  CHECK(answer.measured->covered);
  CHECK(answer.measured->verdict_right);
  CHECK_FALSE(judged(1000, 970).measured->covered);
}

TEST_CASE("errors are those at the speed that prep had, and those as predicted beside them") {
  WhatIfAnswer answer = answered(1000, 950);
  WhatIfAnswer now = answered(955, 950);
  judge(answer, now, {"cpu", false});
  CHECK(std::abs(answer.measured->error - 5.0 / 950) < 1e-12);
  CHECK(std::abs(answer.measured->error_as_profiled - 50.0 / 950) < 1e-12);
  answer.measured->speed = 0.955;
  const WhatIfValidation validation = conclude_validation({answer}, {});
  CHECK(validation.outcome == "passed");
  CHECK(std::abs(validation.worst_error_as_profiled - 50.0 / 950) < 1e-12);
  CHECK(validation.slowest == 0.955);
}

TEST_CASE("a verdict is right when both sides name one bottleneck, or when either side is inconclusive") {
  CHECK_FALSE(judged(1000, 1000, {"io", false}).measured->verdict_right);
  CHECK(judged(1000, 1000, {"io", true}).measured->verdict_right);
  WhatIfAnswer close = answered(1000, 1000);
  close.too_close = true;
  judge(close, WhatIfAnswer(close), {"io", false});
  CHECK(close.measured->verdict_right);
}

TEST_CASE("a validation passes within its bounds, fails past them, and cannot tell when nothing was left to it") {
  const ValidationOptions options;
  const WhatIfValidation passed = conclude_validation({judged(1010, 1000), judged(990, 1000), judged(1040, 1000)}, options);
  CHECK(passed.outcome == "passed");
  CHECK(std::abs(passed.median_error - 0.01) < 1e-12);
  CHECK(std::abs(passed.worst_error - 0.04) < 1e-12);
  CHECK(std::abs(passed.covered_share - 2.0 / 3) < 1e-12);

  CHECK(conclude_validation({judged(1010, 1000), judged(1060, 1000)}, options).outcome == "failed");
  CHECK(conclude_validation({judged(1030, 1000), judged(1030, 1000)}, options).outcome == "failed");
  CHECK(conclude_validation({judged(1000, 1000, {"io", false})}, options).outcome == "failed");

  WhatIfAnswer disturbed = judged(1300, 1000);
  disturbed.measured->windows = 0;
  disturbed.measured->void_windows = 8;
  const WhatIfValidation undecided = conclude_validation({disturbed}, options);
  CHECK(undecided.outcome == "undecided");
  CHECK(undecided.void_share == 1);
  const WhatIfValidation without = conclude_validation({disturbed, judged(1010, 1000)}, options);
  CHECK(without.outcome == "passed");
  CHECK(without.measured == 1);
  CHECK(std::abs(without.void_share - 8.0 / 18) < 1e-12);

  CHECK(conclude_validation({WhatIfAnswer{}}, options).outcome == "undecided");
  CHECK(conclude_validation({WhatIfAnswer{}}, options).not_measured == 1);
}
