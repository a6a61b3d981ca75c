// Which configuration a search names where no configuration surely reaches the target.

#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "answers.hpp"
#include "search_shop.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test_shop;
using testing::says;

namespace {

/// P that few points tell little of: its interval widens with the cores, and its law levels off.
RateModel loose_model() {
  return rate_model_from_text("G=3000±0.1%,P=965±25%,P@1=605±20%,C=192000±1%,S=56000±20%",
                              "cores=2,accelerators=1,dataset=87MB,samples=1500,cache=100%");
}

SearchQuestion question_of_cores(double target) {
  SearchQuestion question = question_of(target);
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  question.accelerators = {1};
  return question;
}

}  // namespace

TEST_CASE("of configurations that may reach a target the answer is one that is predicted to, within what was measured where it can be") {
  const SearchResult result = search_setups(loose_model(), question_of_cores(1500));
  CHECK(result.reach == Reach::maybe);
  CHECK(result.cheapest->samples_per_s >= 1500);
  CHECK(result.cheapest->extrapolation <= most_extrapolation);
  CHECK(says(result.conclusions.at(0), "is predicted to, though its interval begins at"));
  CHECK(says(result.conclusions.at(0), "by the fitted law"));
  RateModel one_point = loose_model();
  one_point.scaling = FittedScaling::linear(500);
  CHECK(says(search_setups(one_point, question_of_cores(1500)).conclusions.at(0), "as if prep scaled linearly"));
  REQUIRE(result.cheaper_maybe);
  CHECK(result.cheaper_maybe->extrapolation > most_extrapolation);
  CHECK(says(result.conclusions.back(), "times beyond what was measured, so its"));
  for (const std::string& sentence : result.conclusions) CHECK_FALSE(says(sentence, "enough"));
}

TEST_CASE("where nothing is predicted to reach a target the answer is what comes nearest, and nothing smaller is called enough") {
  const SearchResult result = search_setups(loose_model(), question_of_cores(2500));
  CHECK(result.reach == Reach::maybe);
  CHECK(result.cheapest->samples_per_s == result.fastest.samples_per_s);
  CHECK_FALSE(result.cheapest_hour);
  CHECK(says(result.conclusions.at(0), "No configuration is predicted to reach target"));
  CHECK(says(result.conclusions.at(0), "only the upper end of its interval"));
}

TEST_CASE("a coarse search, too, considers configurations within what was measured") {
  RateModel model = measured_model();
  model.cores = model.measured_cores_high = 2;
  model.accelerators = 1;
  SearchQuestion question = question_of(100);
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  question.most_setups = 150;
  const SearchResult result = search_setups(model, question);
  CHECK(result.reach == Reach::conditionally);
  CHECK(result.cheapest->extrapolation <= most_extrapolation);
}
