#include "validate/validate.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "../loaders/dataset/made_dataset.hpp"
#include "base/error.hpp"
#include "models/simulate/profile_simulation.hpp"
#include "models/whatif/whatif.hpp"

using namespace dsanalyze;

namespace {

ProfileInputs emulated_inputs() {
  ProfileInputs given;
  given.index = testing::emulated_dataset(1000, 1000);
  given.host = read_host_facts();
  ProfileSettings& settings = given.settings;
  settings.dataset = "emulated:test";
  settings.storage = Seam::emulated;
  settings.storage_bytes_per_s = 1e6;
  settings.prep = Seam::emulated;
  settings.prep_rate_per_core = 500;
  settings.cores = settings.workers = 4;
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_name = "emulated:5000";
  settings.accelerator_rate = 5000;
  settings.batch_size = 20;
  settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.5};
  return given;
}

/// A profile of those devices as their closed forms have it; nothing was run for it.
ProfileResult profile_of(const ProfileInputs& inputs) {
  const auto rate = [](double value) {
    RateRecord record;
    record.samples_per_s = value;
    record.bytes_per_s = value * 1000;
    record.ci95_samples_per_s = {value * 0.99, value * 1.01};
    return record;
  };
  ProfileResult profile;
  profile.settings = inputs.settings;
  profile.dataset = {"emulated:test", "emulated", 1000, 1'000'000, 1000, "", false, 1000, 1'000'000};
  profile.ingestion = rate(5000);
  profile.prep = rate(2000);
  profile.cache = rate(1e6);
  profile.storage = rate(1000);
  profile.fetch = rate(1996);
  profile.fetch->cache_fraction = 0.5;
  profile.trusted = true;
  return profile;
}

WhatIfAnswer with(const ProfileResult& profile, void (*change)(WhatIfQuestion&)) {
  WhatIfQuestion question;
  change(question);
  return answer(rate_model(profile), question).answers.at(1);
}

}  // namespace

TEST_CASE("the settings of an answer are those of the profile, changed as asked") {
  const ProfileResult profile = profile_of(emulated_inputs());
  const auto settings = [&](void (*change)(WhatIfQuestion&)) { return changed_settings(profile, with(profile, change)).settings; };
  CHECK(settings([](WhatIfQuestion& q) { q.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.25}}; }).cache_size->fraction == 0.25);
  CHECK(settings([](WhatIfQuestion& q) { q.cores = {{8.0, std::nullopt}}; }).workers == 8);
  CHECK(settings([](WhatIfQuestion& q) { q.accelerator_speeds = {2}; }).accelerator_rate == doctest::Approx(10'000));
  const ProfileSettings two = settings([](WhatIfQuestion& q) { q.accelerators = {2}; });
  CHECK(two.accelerators == 2);
  CHECK(two.accelerator_rate == doctest::Approx(5000));
  CHECK(settings([](WhatIfQuestion& q) { q.batch_sizes = {40}; }).batch_size == 40);
  CHECK(settings([](WhatIfQuestion& q) { q.storage = {{std::nullopt, 2.0}}; }).storage_bytes_per_s == doctest::Approx(2e6));
  const ProfileSettings jobs = settings([](WhatIfQuestion& q) { q.jobs = {8}, q.shares = {JobSharing::unified_producer}; });
  CHECK(jobs.jobs == 8);
  CHECK(jobs.share == JobSharing::coordinated);
  CHECK(jobs.producers == Producers::coordinator);
  CHECK(jobs.accelerator_rate == doctest::Approx(5000));
  CHECK(settings([](WhatIfQuestion& q) { q.jobs = {8}, q.shares = {JobSharing::coordinated}; }).producers == Producers::jobs);
  CHECK(settings([](WhatIfQuestion& q) { q.jobs = {8}; }).share == JobSharing::none);
  CHECK(settings([](WhatIfQuestion& q) { q.caches = {{CacheKind::lru, Admission::first}}; }).cache == CacheKind::lru);
}

TEST_CASE("what this machine cannot run is said with its reason") {
  ProfileInputs inputs = emulated_inputs();
  const ProfileResult profile = profile_of(inputs);
  const auto reason = [&](void (*change)(WhatIfQuestion&)) { return cannot_run(inputs, profile, with(profile, change)); };
  CHECK(reason([](WhatIfQuestion& q) { q.jobs = {8}; }).empty());
  const auto sharing = [](WhatIfQuestion& q) { q.jobs = {8}, q.shares = {JobSharing::coordinated}; };
  CHECK(reason(sharing).find("processes") != std::string::npos);
  CHECK(reason([](WhatIfQuestion& q) { q.jobs = {300}; }).find("--jobs") != std::string::npos);
  CHECK(reason([](WhatIfQuestion& q) { q.servers = {2}; }).find("several servers") != std::string::npos);
  CHECK(reason([](WhatIfQuestion& q) { q.cores = {{2.5, std::nullopt}}; }).find("part of a core") != std::string::npos);
  CHECK(reason([](WhatIfQuestion& q) { q.cores = {{64.0, std::nullopt}}; }).empty());  // virtual ones
  CHECK(reason([](WhatIfQuestion& q) { q.storage = {{std::nullopt, 3.0}}; }).empty());

  ProfileInputs real = inputs;
  real.settings.storage = Seam::real;
  real.settings.prep = Seam::real;
  real.settings.cores = real.settings.workers = 1;
  real.index = testing::emulated_dataset(1000, 1000);
  ProfileResult measured = profile;
  measured.settings = real.settings;
  CHECK(cannot_run(real, measured,
                   with(measured,
                        [](WhatIfQuestion& q) {
                          q.storage = {{std::nullopt, 3.0}};
                        }))
            .find("slower, not faster") != std::string::npos);
  CHECK(cannot_run(real, measured,
                   with(measured,
                        [](WhatIfQuestion& q) {
                          q.cores = {{4096.0, std::nullopt}};
                        }))
            .find("this process may use") != std::string::npos);
  measured.settings.accelerator = AcceleratorKind::cpu;
  for (const auto change : {+[](WhatIfQuestion& q) { q.accelerators = {4}; }, +[](WhatIfQuestion& q) { q.accelerator_speeds = {2}; }})
    CHECK(cannot_run(real, measured, with(measured, change)).find("the CPU trains") != std::string::npos);
}

/// Keeps what it is told of the configurations' progress.
struct ProgressOfAll final : EventSink {
  void progress(const Progress& progress) override {
    if (progress.activity.starts_with("validation, configuration ")) all.push_back(progress);
  }
  void note(const std::string& /*line*/) override {}
  void finding(const Finding& /*finding*/) override {}
  std::vector<Progress> all;
};

TEST_CASE("every answer that can be run is run, and says what it measured") {
  const ProfileInputs inputs = emulated_inputs();
  const ProfileResult profile = profile_of(inputs);
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0}};
  question.jobs = {2};
  question.shares = {JobSharing::none, JobSharing::coordinated};
  WhatIfResult result = answer(rate_model(profile), question);
  ValidationOptions options;
  options.seconds = 6;
  ProgressOfAll told;
  validate(inputs, profile, result, options, told, {}, system_timing());
  REQUIRE(result.validation.has_value());
  CHECK(result.validation->measured == 3);
  REQUIRE(told.all.size() == 3);
  CHECK(told.all[0].activity == "validation, configuration 1 of 3");
  CHECK(told.all[0].fraction == 0);
  CHECK(told.all[0].eta_seconds == doctest::Approx(6));
  for (const Progress& each : told.all) CHECK(each.fraction == doctest::Approx(1 - each.eta_seconds / 6));
  CHECK(told.all[2].fraction > told.all[1].fraction);
  CHECK(result.validation->not_measured == 1);
  for (const WhatIfAnswer& one : result.answers) {
    CHECK(one.measured.has_value() == one.not_measured.empty());
    if (!one.measured) continue;
    CHECK(one.measured->samples_per_s > 0);
    CHECK(one.measured->windows > 0);
    CHECK(one.simulated.has_value() == !one.jobs.has_value());
    CHECK(std::abs(one.measured->error - (one.samples_per_s / one.measured->samples_per_s - 1)) < 1e-9);
  }
}

TEST_CASE("without a time budget as many configurations run as fit into three minutes, the unchanged first, then what tells most that is new") {
  const ProfileInputs inputs = emulated_inputs();
  const ProfileResult profile = profile_of(inputs);
  WhatIfQuestion question;
  for (int percent = 0; percent <= 100; percent += 5) question.cache_sizes.push_back({ByteAmount::Kind::fraction, 0, percent / 100.0});
  question.accelerator_speeds = {0.2};
  WhatIfResult result = answer(rate_model(profile), question);
  const ValidationPlan plan = plan_validation(inputs, profile, result, {});
  CHECK(plan.seconds <= ValidationOptions::default_seconds);
  CHECK(plan.seconds > ValidationOptions::default_seconds / 2);
  REQUIRE(plan.order.size() >= 3);
  CHECK(plan.left_out > 0);
  CHECK(plan.order.size() + plan.left_out == result.answers.size());
  CHECK(plan.order[0] == 0);
  // The profile is bound by fetch: one whose bottleneck is prep and one where it is the accelerators come before any more of fetch.
  CHECK(result.answers[plan.order[1]].bottleneck != result.answers[0].bottleneck);
  CHECK(result.answers[plan.order[2]].bottleneck != result.answers[plan.order[1]].bottleneck);
  CHECK(result.answers[plan.order[2]].bottleneck != result.answers[0].bottleneck);
  const auto ran = [&](std::size_t at) { return std::ranges::find(plan.order, at) != plan.order.end(); };
  for (std::size_t at = 0; at < result.answers.size(); ++at) CHECK(result.answers[at].not_measured.empty() == ran(at));
  CHECK(plan_text(plan, result.answers.size()).find("more would take") != std::string::npos);

  ValidationOptions all;
  all.seconds = 60;
  const ValidationPlan shared = plan_validation(inputs, profile, result, all);
  CHECK(shared.left_out == 0);
  CHECK(shared.seconds == doctest::Approx(60));
}

TEST_CASE("runs over the whole dataset take as long as over a subset that is as large") {
  const ProfileInputs inputs = emulated_inputs();
  ProfileResult profile = profile_of(inputs);
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0}};
  const auto planned_seconds = [&] {
    WhatIfResult result = answer(rate_model(profile), question);
    return plan_validation(inputs, profile, result, {}).seconds;
  };
  const double of_subset = planned_seconds();
  profile.dataset.subset_samples = 0;
  CHECK(planned_seconds() == doctest::Approx(of_subset));
}

TEST_CASE("a validation that is stopped ends as interrupted") {
  const ProfileInputs inputs = emulated_inputs();
  const ProfileResult profile = profile_of(inputs);
  WhatIfResult result = answer(rate_model(profile), {});
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(validate(inputs, profile, result, {}, null_events(), stop.get_token(), system_timing()), Interrupted);
}
