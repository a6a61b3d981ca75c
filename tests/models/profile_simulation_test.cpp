#include "models/simulate/profile_simulation.hpp"

#include <doctest/doctest.h>

#include "models/whatif/whatif.hpp"

using namespace dsanalyze;

namespace {

RateRecord rate(double value) {
  RateRecord record;
  record.samples_per_s = value;
  record.bytes_per_s = value * 1e5;
  record.ci95_samples_per_s = {value, value};
  return record;
}

/// Real reads and real prep on two cores, half cached; while it read alone, this process kept a tenth of them busy.
ProfileResult photographs() {
  ProfileResult profile;
  profile.settings.cores = profile.settings.workers = 2;
  profile.settings.storage = profile.settings.prep = Seam::real;
  profile.settings.accelerator = AcceleratorKind::emulated;
  profile.settings.accelerator_rate = 5000;
  profile.settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.5};
  profile.host.cores = 2;
  profile.dataset.format = "folder";
  profile.dataset.samples = 10'000;
  profile.dataset.bytes = 1'000'000'000;
  profile.dataset.mean_sample_bytes = 1e5;
  profile.ingestion = rate(5000);
  profile.prep = rate(2000);
  profile.cache = rate(1e6);
  profile.storage = rate(1000);
  profile.fetch = rate(1 / (0.5 / 1e6 + 0.5 / 1000));
  profile.fetch->cache_fraction = 0.5;
  RunRecord fetch;
  fetch.name = "fetch";
  fetch.samples_per_s = 1000;
  for (int i = 0; i < 10; ++i) fetch.timeline.push_back({static_cast<double>(i), 0.1, 0, 1e8, 0});
  profile.runs.push_back(fetch);
  return profile;
}

WhatIfAnswer cached(const ProfileResult& profile, double fraction) {
  WhatIfQuestion question;
  question.cache_sizes = {ByteAmount{ByteAmount::Kind::fraction, 0, fraction}};
  return answer(rate_model(profile), question).answers.at(1);
}

double prep_seconds(const ProfileResult& profile, double fraction) {
  const auto setup = simulated_setup(profile, cached(profile, fraction), 10'000);
  REQUIRE(setup);
  return setup->prep.seconds_per_sample.mean();
}

}  // namespace

TEST_CASE("real reads take their part of the cores that prep runs on, as many as come from storage") {
  const ProfileResult profile = photographs();
  const double alone = 2.0 / 2000;
  const double of_a_read = 0.1 * 2 / 1000;
  CHECK(prep_seconds(profile, 1) == doctest::Approx(alone).epsilon(1e-9));
  CHECK(prep_seconds(profile, 0.25) == doctest::Approx(alone + 0.75 * of_a_read).epsilon(1e-9));
  CHECK(prep_seconds(profile, 0) == doctest::Approx(alone + of_a_read).epsilon(1e-9));
}

TEST_CASE("emulated reads take no core, nor do those of a profile that did not measure them") {
  ProfileResult emulated = photographs();
  emulated.settings.storage = Seam::emulated;
  emulated.settings.storage_bytes_per_s = 1e8;
  CHECK(prep_seconds(emulated, 0.25) == doctest::Approx(2.0 / 2000).epsilon(1e-9));
  ProfileResult without = photographs();
  without.runs.clear();
  CHECK(prep_seconds(without, 0.25) == doctest::Approx(2.0 / 2000).epsilon(1e-9));
}
