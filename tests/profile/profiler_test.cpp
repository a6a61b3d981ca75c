#include "profile/profiler.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "../base/sanitizers.hpp"
#include "../base/texts.hpp"
#include "base/clock.hpp"

#include "../base/temporary_folder.hpp"
#include "../core/trace_lines.hpp"
#include "../loaders/dataset/made_dataset.hpp"
#include "../loaders/prep/jpeg_images.hpp"

namespace dsanalyze {
namespace {

ProfileInputs emulated(double storage_bytes_per_s, double prep_per_core, double accelerator) {
  ProfileInputs given;
  given.index = testing::emulated_dataset(3000, 1000);
  given.host = read_host_facts();
  ProfileSettings& settings = given.settings;
  settings.dataset = "emulated:test";
  settings.storage = Seam::emulated;
  settings.storage_bytes_per_s = storage_bytes_per_s;
  settings.prep = Seam::emulated;
  settings.prep_rate_per_core = prep_per_core;
  settings.cores = 4;
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_name = "emulated";
  settings.accelerator_rate = accelerator;
  settings.batch_size = 20;
  settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.5};
  settings.time_budget_seconds = 3;
  return given;
}

ProfileResult profile(ProfileInputs& given) {
  const ProfilePlan plan = plan_profile(given);
  return run_profile(given, plan, null_events(), {}, system_timing());
}

TEST_CASE("a whole profile on emulated devices has the distributions, digests and stalls of its runs" * doctest::skip(testing::too_often)) {
  constexpr double prep = 1000;
  ProfileInputs given = emulated(5e5, prep, 5000);
  const ProfileResult result = profile(given);
  REQUIRE(result.bottleneck.has_value());
  REQUIRE(result.stalls.has_value());
  const RunRecord* full = result.run("full");
  REQUIRE(full != nullptr);
  REQUIRE(result.distributions.sample_bytes.has_value());
  CHECK(result.distributions.sample_bytes->deviation.has_value());
  for (std::size_t epoch = 1; epoch < full->epochs.size(); ++epoch) {
    CHECK(full->epochs[epoch].cache_hits == full->epochs[1].cache_hits);
    CHECK(full->epochs[epoch].digest == full->epochs[0].digest);
  }
  CHECK(parse_utc(result.started_utc).has_value());
  for (const char* name : {"cached", "full"}) {
    const RunRecord* run = result.run(name);
    REQUIRE(run != nullptr);
    CHECK(run->prep_operators.front().seconds_per_sample == doctest::Approx(1 / prep));
    REQUIRE(run->stall_seconds.has_value());
    CHECK(run->stall_seconds->quantiles.size() == DistributionRecord::points);
    CHECK(run->stall_seconds->quantiles[50] == doctest::Approx(run->stall_p50_seconds));
    CHECK(run->stall_seconds->quantiles[99] == doctest::Approx(run->stall_p99_seconds));
    REQUIRE(run->mlperf_storage_au.has_value());
    CHECK(run->mlperf_storage_au->value > 0);
  }
  REQUIRE(result.run("prep") != nullptr);
  CHECK_FALSE(result.run("prep")->mlperf_storage_au.has_value());
  CHECK_FALSE(result.run("prep")->stall_seconds.has_value());
  CHECK(result.run("prep")->storage_bytes == Bytes{0});
  CHECK(result.run("cached")->storage_bytes == Bytes{0});
}

TEST_CASE("a real folder with a broken file is profiled without it, and the result names it") {
  testing::FileDataset data;
  for (int i = 0; i < 8; ++i) {
    const auto bytes = test::encode_picture({});
    data.add(std::to_string(i) + ".jpg", i == 7 ? "broken" : std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  ProfileInputs given;
  given.index = data.index();
  given.host = read_host_facts();
  given.settings.dataset = given.index->facts().root;
  given.settings.batch_size = 8;  // However slow the machine is, its first batch has the broken file.
  given.settings.time_budget_seconds = 3;
  given.settings.error_budget = 0.2;
  const ProfileResult result = profile(given);
  CHECK_FALSE(result.stalls.has_value());
  REQUIRE(result.prep);
  CHECK(result.prep->samples_per_s > 0);
  CHECK(result.run("prep")->samples_failed > 0);
  CHECK(std::ranges::any_of(result.findings, [](const Finding& f) { return f.code == "samples-failed" && testing::says(f.message, "7.jpg"); }));
  given.settings.on_error = OnError::fail;
  CHECK(testing::says(testing::error_of([&] { profile(given); }), "7.jpg"));
}

TEST_CASE("a dataset of one image is profiled, in epochs that take no negative time") {
  testing::FileDataset data;
  const auto bytes = test::encode_picture({});
  data.add("only.jpg", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  ProfileInputs given;
  given.index = data.index();
  given.host = read_host_facts();
  given.settings.dataset = given.index->facts().root;
  given.settings.batch_size = 8;
  given.settings.workers = 3;
  given.settings.time_budget_seconds = 2 * testing::time_factor;
  const ProfileResult result = profile(given);
  REQUIRE(result.cache.has_value());
  for (const RunRecord& run : result.runs) {
    for (const EpochRecord& epoch : run.epochs) CHECK(epoch.seconds >= 0);
  }
}

TEST_CASE("a run that could not measure its rate has no epoch time, and the budget holds") {
  ProfileInputs given = emulated(1e4, 1000, 5000);  // 10 samples/s
  given.settings.time_budget_seconds = 1;
  const ProfileResult result = profile(given);
  CHECK_FALSE(result.trusted);
  REQUIRE(result.run("full") != nullptr);
  CHECK(result.run("full")->samples_per_s == 0);
  CHECK(result.run("full")->epoch_seconds == 0);
}

TEST_CASE("a traced profile says so and leaves a trace; one whose trace cannot be written stands without it") {
  const auto has = [](const ProfileResult& result, const std::string& code) {
    return std::ranges::any_of(result.findings, [&](const Finding& finding) { return finding.code == code; });
  };
  ProfileInputs given = emulated(4e6, 1000, 1000);
  given.settings.runs = {"full"};
  given.settings.time_budget_seconds = 2;
  const testing::TemporaryFolder folder;
  given.trace_events_file = folder.path() / "trace.json";
  ProfileResult result = profile(given);
  CHECK(has(result, "traced"));
  CHECK_FALSE(has(result, "trace-not-written"));
  const test::ReadTrace trace = test::read_trace(given.trace_events_file.native());
  CHECK(trace.named("prep worker").size() == 4);
  CHECK(trace.named("accelerator").size() == 1);
  CHECK(trace.named("epochs").size() == 1);
  CHECK(trace.named("sampler").size() == 1);
  CHECK(trace.counters.size() == 4);
  CHECK(trace.facts["dataset"] == "emulated:test");
  CHECK(folder.entries() == 1);

  given.trace_events_file = "/dev/full";
  result = profile(given);
  CHECK(has(result, "trace-not-written"));
  REQUIRE(result.run("full") != nullptr);
  CHECK(result.run("full")->samples_per_s > 0);

  given.trace_events_file = folder.path() / "short.json";
  given.most_trace_events = 500;
  result = profile(given);
  CHECK(has(result, "trace-cut-short"));
}

TEST_CASE("a request to stop ends a profile") {
  ProfileInputs given = emulated(5e5, 1000, 5000);
  const ProfilePlan plan = plan_profile(given);
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(run_profile(given, plan, null_events(), stop.get_token(), system_timing()), Interrupted);
}

}  // namespace
}  // namespace dsanalyze
