#include "profile/verdict.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace dsanalyze {
namespace {

RateRecord rate(double value, double error = 0.01) {
  RateRecord record;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {value * (1 - error), value * (1 + error)};
  record.windows = 10;
  return record;
}

/// [DS-Analyzer, Table 5]'s server with runs that reached what the closed form says.
ProfileResult profile(double ingestion, double prep, double storage, double cached, double full) {
  ProfileResult result;
  result.trusted = true;
  result.dataset.samples = 1000;
  result.dataset.mean_sample_bytes = 100;
  result.ingestion = rate(ingestion);
  result.prep = rate(prep);
  result.cache = rate(1e6);
  result.storage = rate(storage);
  RunRecord run;
  run.name = "cached";
  run.samples_per_s = cached;
  run.ci95_samples_per_s = {cached * 0.99, cached * 1.01};
  result.runs.push_back(run);
  run.name = "full";
  run.samples_per_s = full;
  run.ci95_samples_per_s = {full * 0.98, full * 1.02};
  result.runs.push_back(run);
  return result;
}

TEST_CASE("the lowest of F, P and G binds, and the next one is named") {
  ProfileResult io = profile(10'000, 8'000, 2'000, 8'000, 3'000);
  conclude(io, {0.35, 0.35});
  CHECK(io.bottleneck->resource == "io");
  CHECK(io.bottleneck->detail == "storage");
  CHECK(io.bottleneck->next == "cpu");
  CHECK(io.bottleneck->confident);
  CHECK(io.fetch->samples_per_s == doctest::Approx(effective_fetch_rate(0.35, 1e6, 2'000)));
  ProfileResult cpu = profile(10'000, 3'000, 5'000, 3'000, 3'000);
  conclude(cpu, {0.35, 0.35});
  CHECK(cpu.bottleneck->resource == "cpu");
  ProfileResult gpu = profile(1'000, 3'000, 5'000, 1'000, 1'000);
  conclude(gpu, {0.35, 0.35});
  CHECK(gpu.bottleneck->resource == "gpu");
  CHECK(gpu.bottleneck->next == "cpu");
}

TEST_CASE("a fully cached dataset whose cache is the slowest part is bound by the cache") {
  ProfileResult result = profile(1e7, 1e7, 1000, 1e6, 1e6);
  conclude(result, {1.0, 1.0});
  CHECK(result.bottleneck->resource == "io");
  CHECK(result.bottleneck->detail == "cache");
}

TEST_CASE("stalls are the differences of the runs' time a sample, and add up to the epoch") {
  ProfileResult result = profile(10'000, 5'000, 1'000, 5'000, 2'000);
  conclude(result, {0.35, 0.35});
  REQUIRE(result.stalls.has_value());
  CHECK(result.stalls->compute.fraction == doctest::Approx(0.2));
  CHECK(result.stalls->prep.fraction == doctest::Approx(0.2));
  CHECK(result.stalls->fetch.fraction == doctest::Approx(0.6));
  CHECK(result.stalls->fetch.seconds_per_epoch == doctest::Approx(1000 * (1.0 / 2000 - 1.0 / 5000)));
  CHECK(result.stalls->fetch.ci95_fraction.low < 0.6);
  CHECK(result.stalls->fetch.ci95_fraction.high > 0.6);
}

TEST_CASE("a stall's interval is that of the runs it comes from, not of other rates") {
  ProfileResult result = profile(10'000, 5'000, 1'000, 5'000, 2'000);
  result.storage = rate(1'000, 0.5);
  conclude(result, {0.35, 0.35});
  // Fetch is 1 - full / cached: the errors of both runs move the quotient.
  const double full_error = 0.4 * 0.02, cached_error = 0.4 * 0.01;
  CHECK(result.stalls->fetch.ci95_fraction.high - 0.6 == doctest::Approx(std::hypot(full_error, cached_error)).epsilon(0.02));
}

TEST_CASE("every part of the epoch is as unsure as the full run that it is a part of") {
  ProfileResult result = profile(10'000, 5'000, 1'000, 5'000, 2'995);
  result.ingestion = rate(10'000, 0.0005);
  result.runs[1].ci95_samples_per_s = {2'995 * (1 - 0.138), 2'995 * (1 + 0.138)};
  conclude(result, {0.35, 0.35});
  const StallRecord& compute = result.stalls->compute;
  CHECK(compute.fraction == doctest::Approx(0.2995));
  CHECK((compute.ci95_fraction.high - compute.ci95_fraction.low) / 2 == doctest::Approx(0.2995 * 0.138).epsilon(0.02));
  const StallRecord& prep = result.stalls->prep;
  CHECK((prep.ci95_fraction.high - prep.ci95_fraction.low) / 2 > prep.fraction * 0.13);
}

TEST_CASE("the interval of a stall that is 0 holds what the runs' intervals allow") {
  ProfileResult result = profile(1'000, 5'000, 5'000, 999, 1'001);
  conclude(result, {0.35, 0.35});
  CHECK(result.stalls->fetch.ci95_fraction.low == 0);
  CHECK(result.stalls->fetch.ci95_fraction.high > 0.01);
  CHECK(result.stalls->fetch.ci95_fraction.high < 0.03);
}

TEST_CASE("a full run that is far from what the rates promise is a finding, a near one is not") {
  const auto differs = [](double full) {
    ProfileResult result = profile(10'000, 5'000, 1'000, 5'000, full);
    conclude(result, {0.35, 0.35});
    return std::ranges::any_of(result.findings, [](const Finding& f) { return f.code == "closed-form-differs"; });
  };
  const double promised = effective_fetch_rate(0.35, 1e6, 1'000);
  CHECK(differs(promised * 0.85));
  CHECK_FALSE(differs(promised * 0.95));
}

TEST_CASE("what the rates do not explain of the full run's loss is interference, and neither fetch nor prep") {
  // F is far above P: by the rates nothing is lost to fetch, and yet the full run lost a third.
  ProfileResult busy = profile(4'000, 1'800, 20'000, 1'790, 1'200);
  busy.host.cores = 2;
  conclude(busy, {0.35, 0.35});
  REQUIRE(busy.stalls.has_value());
  REQUIRE(busy.stalls->interference.has_value());
  const auto& stalls = *busy.stalls;
  CHECK(stalls.fetch.fraction == doctest::Approx(0).epsilon(0.001));
  CHECK(stalls.prep.fraction == doctest::Approx(1'200 * (1.0 / 1'790 - 1.0 / 4'000)).epsilon(0.001));
  CHECK(stalls.interference->fraction == doctest::Approx(1 - 1'200.0 / 1'790).epsilon(0.02));
  CHECK(stalls.compute.fraction + stalls.prep.fraction + stalls.fetch.fraction + stalls.interference->fraction == doctest::Approx(1));
  REQUIRE(busy.attained.has_value());
  CHECK(busy.attained->samples_per_s == 1'200);
  CHECK(busy.attained->by_rates_samples_per_s == 1'800);
  CHECK_FALSE(busy.attained->evidence.empty());

  // Where the rates give as much, and where noise alone lies between, there is none.
  for (const double full : {1'790.0, 1'775.0}) {
    ProfileResult quiet = profile(4'000, 1'800, 20'000, 1'790, full);
    conclude(quiet, {0.35, 0.35});
    CHECK_FALSE(quiet.stalls->interference.has_value());
    CHECK(quiet.attained->evidence.empty());
  }
  // A loss to fetch that the rates explain stays one.
  ProfileResult fetch = profile(10'000, 5'000, 1'000, 5'000, 1'538);
  conclude(fetch, {0.35, 0.35});
  CHECK_FALSE(fetch.stalls->interference.has_value());
  CHECK(fetch.stalls->fetch.fraction == doctest::Approx(1 - 1'538.0 / 5'000));
}

TEST_CASE("interference names what was seen: reading that costs CPU time, and processes that came with the full run") {
  ProfileResult result = profile(4'000, 1'800, 20'000, 1'790, 1'200);
  result.host.cores = 2;
  result.settings.storage = result.settings.prep = Seam::real;
  RunRecord& full = result.runs.back();
  full.cache_hits = 350;
  full.cache_misses = 650;
  full.others = BackgroundLoad{0.3, {}};
  RunRecord reading;
  reading.name = "fetch";
  reading.samples_per_s = 20'000;
  reading.timeline = {{1, 0.8, 0, 0, 0}, {2, 0.8, 0, 0, 0}};
  result.runs.push_back(reading);
  conclude(result, {0.35, 0.35});
  REQUIRE(result.stalls->interference.has_value());
  const auto& evidence = result.attained->evidence;
  const auto says = [&](const char* part) {
    return std::ranges::any_of(evidence, [part](const std::string& each) { return each.find(part) != std::string::npos; });
  };
  CHECK(says("reading costs 0.08 ms of CPU time a sample, 3.1 % of the CPU"));
  CHECK(says("other processes took 30 % of the CPU in the full run and 0 % while P was measured"));
}

TEST_CASE("noise that makes the full run faster than the cached one gives no negative stall") {
  ProfileResult result = profile(1'000, 5'000, 5'000, 999, 1'001);
  conclude(result, {0.35, 0.35});
  CHECK(result.stalls->fetch.fraction == 0);
  CHECK(result.stalls->compute.fraction <= 1);
}

TEST_CASE("overlapping intervals are inconclusive, and an untrusted measurement is never confident") {
  ProfileResult close = profile(10'000, 3'000, 1'960, 3'000, 3'000);
  close.prep = rate(3'000, 0.03);
  close.storage = rate(1'960, 0.03);
  conclude(close, {0.35, 0.35});
  CHECK_FALSE(close.bottleneck->confident);
  CHECK(close.bottleneck->reason.find("inconclusive") != std::string::npos);
  ProfileResult untrusted = profile(10'000, 8'000, 2'000, 8'000, 3'000);
  untrusted.trusted = false;
  conclude(untrusted, {0.35, 0.35});
  CHECK_FALSE(untrusted.bottleneck->confident);
}

TEST_CASE("the lowest rate is compared with every other, not with the second lowest alone") {
  // F lies above P and G, but as unsure as it is it may be the lowest.
  ProfileResult result = profile(1'000, 1'050, 1'100, 1'000, 1'000);
  result.storage = rate(1'100, 0.2);
  conclude(result, {0, 0});
  CHECK(result.bottleneck->resource == "gpu");
  CHECK_FALSE(result.bottleneck->confident);
  CHECK(result.bottleneck->next == "io");
  CHECK(result.bottleneck->reason.find("1,100 [F]") != std::string::npos);
  result.storage = rate(1'100, 0.02);
  conclude(result, {0, 0});
  CHECK(result.bottleneck->confident);
  CHECK(result.bottleneck->next == "cpu");
}

TEST_CASE("a rate of one window has no scatter to judge by, so no verdict is sure of it") {
  ProfileResult result = profile(10'000, 8'000, 2'000, 8'000, 2'000);
  result.storage = rate(2'000, 0);
  result.storage->windows = 1;
  conclude(result, {0, 0});
  CHECK_FALSE(result.bottleneck->confident);
  CHECK(result.bottleneck->reason.find("one window") != std::string::npos);
  result.storage->windows = 2;
  conclude(result, {0, 0});
  CHECK(result.bottleneck->confident);
}

TEST_CASE("the parts of an epoch of a run with one window are not known, and say so by their intervals") {
  ProfileResult result = profile(10'000, 5'000, 1'000, 5'000, 2'000);
  result.runs[1].ci95_samples_per_s = {2'000, 2'000};
  result.runs[1].windows = 1;
  conclude(result, {0.35, 0.35});
  CHECK(result.stalls->compute.ci95_fraction.low < 0.01);
  CHECK(result.stalls->compute.ci95_fraction.high > 0.39);
}

ProfileResult with_jobs(ProfileResult result, int jobs, JobSharing share) {
  result.settings.jobs = jobs;
  result.settings.share = share;
  for (int job = 0; job < jobs; ++job) {
    result.jobs.emplace_back().job = job;
    result.jobs.back().samples_per_s = result.run("full")->samples_per_s / jobs;
  }
  return result;
}

bool differs_from_closed_form(const ProfileResult& result) { return std::ranges::count(result.findings, "closed-form-differs", &Finding::code) > 0; }

TEST_CASE("jobs that share nothing want as much as all of them together, and no stall is taken from a run of one job alone") {
  // One job alone is bound by its accelerators; eight of them ask prep for eight times as much.
  ProfileResult result = with_jobs(profile(1'000, 3'000, 1e6, 1'000, 3'000), 8, JobSharing::none);
  result.settings.observed_rate = 100;
  conclude(result, {1.0, 1.0});
  CHECK(result.bottleneck->resource == "cpu");
  CHECK(result.bottleneck->reason.find("8,000 [8 x G]") != std::string::npos);
  CHECK_FALSE(result.stalls.has_value());
  CHECK_FALSE(differs_from_closed_form(result));
  CHECK(result.observed->unused_fraction == doctest::Approx(1 - 100.0 / (3'000.0 / 8)));
}

TEST_CASE("jobs that share are judged by the rate of one of them, as one job is") {
  ProfileResult result = with_jobs(profile(10'000, 5'000, 1'000, 5'000, 8 * 1'500), 8, JobSharing::coordinated);
  ProfileResult alone = profile(10'000, 5'000, 1'000, 5'000, 1'500);
  conclude(result, {0.35, 0.35});
  conclude(alone, {0.35, 0.35});
  CHECK(result.bottleneck->resource == alone.bottleneck->resource);
  CHECK(result.stalls->fetch.fraction == doctest::Approx(alone.stalls->fetch.fraction));
  CHECK(result.stalls->fetch.ci95_fraction.high == doctest::Approx(alone.stalls->fetch.ci95_fraction.high));
  CHECK_FALSE(differs_from_closed_form(result));
}

TEST_CASE("jobs that draw dependently want what all of them train, over how many of them a prepared sample is given to") {
  // Speeds 1 : 0.6 : 0.4 of 1,000 samples/s, and three samples drawn for each two that are prepared: 1,333 samples/s of prep.
  ProfileResult result = with_jobs(profile(1'000, 1'200, 1e6, 1'000, 1'800), 3, JobSharing::dependent);
  result.settings.job_speeds = {1, 0.6, 0.4};
  result.settings.observed_rate = 100;
  result.sharing = SharingRecord{};
  result.sharing->dependent = ShareDependentRecord{};
  result.sharing->dependent->samples_drawn = 3'000;
  result.sharing->dependent->samples_prepared = 2'000;
  conclude(result, {1.0, 1.0});
  CHECK(result.bottleneck->resource == "cpu");
  CHECK(result.bottleneck->reason.find("1,333 [1.33 x G]") != std::string::npos);
  CHECK_FALSE(result.stalls.has_value());
  CHECK_FALSE(differs_from_closed_form(result));
  CHECK(result.observed->unused_fraction == doctest::Approx(1 - 100.0 / (1'200.0 / (2 / 1.5))));
  result.sharing->dependent->samples_drawn = 4'000;
  result.findings.clear();
  conclude(result, {1.0, 1.0});
  CHECK(result.bottleneck->resource == "gpu");
}

TEST_CASE("a job that died counts for nothing where the others are judged") {
  ProfileResult result = with_jobs(profile(10'000, 5'000, 1'000, 5'000, 8 * 1'500), 8, JobSharing::coordinated);
  result.jobs.emplace_back().end = JobEnd::died;
  result.settings.jobs = 9;
  conclude(result, {0.35, 0.35});
  CHECK_FALSE(differs_from_closed_form(result));
}

TEST_CASE("without an accelerator the data side is judged, and stalls are not invented") {
  ProfileResult result = profile(1, 3'000, 1'000, 1, 1);
  result.ingestion.reset();
  result.settings.observed_rate = 1'000;
  conclude(result, {0.5, 0.5});
  CHECK(result.bottleneck->resource == "io");
  CHECK_FALSE(result.stalls.has_value());
  REQUIRE(result.observed.has_value());
  CHECK(result.observed->unused_fraction == doctest::Approx(1 - 1000 / result.fetch->samples_per_s));
}

TEST_CASE("rates that were not measured give no verdict") {
  ProfileResult result;
  conclude(result, {0.5, 0.5});
  CHECK_FALSE(result.fetch.has_value());
  CHECK_FALSE(result.bottleneck.has_value());
}

TEST_CASE("F is not known when everything is cached and the cache was not measured; else its interval stays above nothing") {
  ProfileResult result;
  result.storage = rate(1000, 3.0);
  conclude(result, {1, 1});
  CHECK_FALSE(result.fetch.has_value());
  conclude(result, {0.5, 0.5});
  REQUIRE(result.fetch.has_value());
  CHECK(result.fetch->samples_per_s == doctest::Approx(2000));
  CHECK(result.fetch->ci95_samples_per_s.low == 0);
}

}  // namespace
}  // namespace dsanalyze
