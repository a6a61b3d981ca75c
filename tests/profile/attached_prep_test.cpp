#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "attached_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("P is a lower bound where its data came from storage, whether a subset did not stay in memory or a stream read other data at each start") {
  for (const bool stream : {false, true}) {
    CAPTURE(stream);
    LaunchedTraining launched = prep_bound();
    if (stream) launched.training.loader->style = LoaderRecord::Style::iterable;
    for (DrainMeasurement& drain : launched.training.drains) drain.after->storage_bytes = 600'000'000;
    const ProfileResult result = profile_of(launched);
    REQUIRE(result.prep);
    CHECK(result.prep->samples_per_s == profile_of(prep_bound()).prep->samples_per_s);
    CHECK(result.prep_by_workers.size() == 2);
    const std::string said = finding_of(result, "cached-run-read-storage").message;
    CHECK(says(said, "the run prep read 572 MiB from storage (60.0 % of what it read): its rate is a lower bound"));
    CHECK(says(said, "a stream may read other data at each start"));
    CHECK_FALSE(result.trusted);
    REQUIRE(result.bottleneck);
    CHECK(result.bottleneck->detail == "storage");
    CHECK_FALSE(result.bottleneck->confident);
  }
}

TEST_CASE("P is that of all drains of as many workers, but for further ones that failed or say less") {
  const auto rate_with = [](auto&& change) {
    LaunchedTraining launched = prep_bound();
    for (DrainMeasurement& first : launched.training.drains) first.after->cpu_seconds = 15;
    launched.training.further_drains = {drain_of(2, 0.040), drain_of(1, 0.040)};
    launched.training.further_drains[0].after->cpu_seconds = 10;
    change(launched.training.further_drains[0]);
    return profile_of(launched);
  };
  const double first = profile_of(prep_bound()).prep->samples_per_s;
  const ProfileResult both = rate_with([](DrainMeasurement& /*as it is*/) {});
  CHECK(both.prep->samples_per_s == doctest::Approx(first * 2 / 3).epsilon(0.01));
  REQUIRE(both.prep_by_workers.size() == 2);
  CHECK(both.prep_by_workers[1].samples_per_s == both.prep->samples_per_s);
  const RunRecord& run = *both.run("prep");
  CHECK(run.samples == 2 * profile_of(prep_bound()).run("prep")->samples);
  CHECK(run.seconds == doctest::Approx(12).epsilon(0.01));
  CHECK(run.requested_bytes == 2'000'000'000);
  CHECK(*run.cores_used == doctest::Approx((1.5 * 4 + 1.0 * 8) / 12).epsilon(0.01));
  const auto left_out = [&](auto&& change) { return rate_with(change).prep->samples_per_s == first; };
  CHECK(left_out([](DrainMeasurement& drain) { drain.by_rank.at(0).error = "RuntimeError: no more"; }));
  CHECK(left_out([](DrainMeasurement& drain) { drain.by_rank.at(0).delivered.clear(), drain.by_rank.at(0).samples.clear(); }));
  CHECK(left_out([](DrainMeasurement& drain) { drain.by_rank.clear(); }));
}
