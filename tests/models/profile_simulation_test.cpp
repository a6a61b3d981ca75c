#include "models/simulate/profile_simulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text/units.hpp"
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
  const auto setup = simulated_setup(profile, cached(profile, fraction));
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

TEST_CASE("the rarest of measured times weigh as much as the measured mean says, however far the longest lies off") {
  // 99 quantiles of 1, the next to last 2, and one request in thousands that took 80: the mean says what the last hundredth took.
  DistributionRecord record;
  record.quantiles.assign(101, 1);
  record.quantiles[99] = 2;
  record.quantiles[100] = 80;
  record.count = 100'000;
  record.mean = (98 + 1.5 + 4) / 100;
  const Distribution times = with_mean(record, 1, "seconds");
  CHECK(times.mean() == doctest::Approx(1).epsilon(1e-12));
  CHECK(times.draw(0.5) == doctest::Approx(1 / record.mean).epsilon(1e-12));
  double sum = 0;
  constexpr int draws = 100'000;
  for (int i = 0; i < draws; ++i) sum += times.draw((i + 0.5) / draws);
  CHECK(sum / draws == doctest::Approx(1).epsilon(1e-3));
  CHECK(times.draw(1 - 1e-9) == doctest::Approx(80 / record.mean).epsilon(1e-3));
  // A mean that the quantiles cannot have changes nothing.
  record.mean = 100;
  CHECK(with_mean(record, 1, "seconds").draw(0.995) == doctest::Approx(41 / ((98 + 1.5 + 41) / 100)));
}

namespace {

/// Answers of a profile whose reads take `longest` times the mean once in a hundred.
WhatIfResult simulated_answers(double longest) {
  ProfileResult profile = photographs();
  profile.settings.batch_size = 64;
  profile.settings.fetch_concurrency = 4;
  DistributionRecord requests;
  requests.quantiles.assign(101, 1);
  requests.quantiles[99] = requests.quantiles[100] = longest;
  requests.count = 1000;
  requests.mean = (98.5 + 1.5 * longest) / 100;
  profile.distributions.request_seconds = requests;
  WhatIfQuestion question;
  question.cache_sizes = {ByteAmount{ByteAmount::Kind::fraction, 0, 0.98}};
  question.storage = {{std::nullopt, 0.05}};
  question.combine = WhatIfQuestion::Combine::every_combination;
  return answer(rate_model(profile), question);
}

}  // namespace

TEST_CASE("an answer that is not the lowest of its rates says by how much and why") {
  const WhatIfResult far = simulated_answers(300);
  const auto finding = std::ranges::find(far.findings, "below-the-rates", &Finding::code);
  REQUIRE(finding != far.findings.end());
  double most = 0;
  for (const WhatIfAnswer& each : far.answers) most = std::max(most, std::abs(each.samples_per_s / lowest_rate(each) - 1));
  CHECK(most > 0.05);
  CHECK(finding->message.find(format_share(most)) != std::string::npos);
  CHECK(finding->message.find("prefetch") != std::string::npos);
  CHECK(finding->message.find("slow requests") != std::string::npos);
  // Where it is, there is nothing to say.
  ProfileResult plain = photographs();
  plain.fetch = rate(1e6);
  plain.fetch->cache_fraction = 1;
  WhatIfQuestion servers;  // whose closed form is the answer
  servers.servers = {2};
  const WhatIfResult near = answer(rate_model(plain), servers);
  REQUIRE(near.answers.size() == 2);
  CHECK(std::ranges::count_if(near.answers, [](const WhatIfAnswer& each) { return each.simulated.has_value(); }) == 1);
  CHECK(std::ranges::find(near.findings, "below-the-rates", &Finding::code) == near.findings.end());
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
