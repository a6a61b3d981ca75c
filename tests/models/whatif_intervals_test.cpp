#include <doctest/doctest.h>

#include <algorithm>

#include "answers.hpp"
#include "models/whatif/whatif.hpp"

using namespace dsanalyze;
using testing::has_code;

namespace {

RateModel model_of_rates(double ingestion, double prep, double cache, double storage) {
  RateModel model;
  model.rates = {ingestion, prep, cache, storage};
  return model;
}

WhatIfAnswer as_measured(const RateModel& model) { return answer(model, {}).answers.front(); }

}  // namespace

TEST_CASE("the scatter between runs widens what was measured, and not what accelerators are emulated at") {
  RateModel model = model_of_rates(900, 1000, 50'000, 2000);
  model.prep_error = 0.03;
  model.run_error = 0.04;
  model.any_batch_size = true;
  CHECK_FALSE(as_measured(model).too_close);
  CHECK(as_measured(model).ci95_samples_per_s.low == doctest::Approx(900));
  model.rates.ingestion = 1100;
  CHECK(as_measured(model).ci95_samples_per_s.low == doctest::Approx(950));
  model.any_batch_size = false;
  model.rates.ingestion = 900;
  CHECK(as_measured(model).ci95_samples_per_s.low == doctest::Approx(900 * 0.96));
}

TEST_CASE("the lowest rate is compared with every other, and the one that it cannot be told from is named") {
  RateModel model = model_of_rates(1000, 1050, 50'000, 1100);
  model.storage_error = 0.2;
  const WhatIfResult result = answer(model, {});
  CHECK(result.answers[0].bottleneck == "gpu");
  CHECK(result.answers[0].too_close);
  REQUIRE(has_code(result.findings, "too-close-to-call"));
  const auto finding = std::ranges::find(result.findings, "too-close-to-call", &Finding::code);
  CHECK(finding->message.find("fetch is the bottleneck at 1,100") != std::string::npos);
  model.storage_error = 0.02;
  CHECK_FALSE(as_measured(model).too_close);
}

TEST_CASE("a rate of one window is taken to be unknown by all of itself") {
  RateRecord rate = testing::rate_of(1000, 0);
  rate.windows = 1;
  CHECK(relative_error(rate) == 1);
  CHECK(known_interval(rate).low == 0);
  CHECK(known_interval(rate).high == 2000);
  rate.windows = 2;
  CHECK(relative_error(rate) == 0);
}

TEST_CASE("nothing is sure where the lowest rate is of one window, however far the others lie") {
  RateModel model = model_of_rates(3000, 1000, 50'000, 20'000);
  CHECK_FALSE(as_measured(model).too_close);
  model.prep_error = 1;
  CHECK(as_measured(model).too_close);
}
