#include <doctest/doctest.h>

#include <algorithm>

#include "../base/texts.hpp"
#include "../loaders/dataset/made_dataset.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes GiB = Bytes{1} << 30;

ProfileInputs inputs(std::uint64_t samples, Bytes mean_bytes) {
  ProfileInputs given;
  given.index = testing::emulated_dataset(samples, mean_bytes);
  given.settings.dataset = "emulated:test";
  given.settings.storage = Seam::emulated;
  given.settings.storage_bytes_per_s = 1e8;
  given.settings.prep = Seam::emulated;
  given.settings.prep_rate_per_core = 100;
  given.settings.accelerator = AcceleratorKind::emulated;
  given.settings.accelerator_name = "emulated:1000";
  given.settings.accelerator_rate = 1000;
  given.settings.batch_size = 16;
  given.host.cores_usable = 3.5;
  given.host.cores_online = 64;
  given.host.cpus_allowed = {0, 1, 2, 3};
  given.host.memory_usable = 8 * GiB;
  given.host.memory_total = 256 * GiB;
  return given;
}

TEST_CASE("what is left open is resolved from the limits of this process, not from the host") {
  ProfileInputs given = inputs(1000, 1000);
  const ProfilePlan plan = plan_profile(given);
  CHECK(given.settings.cores == 3);
  CHECK(given.settings.workers == 3);
  CHECK(given.settings.runs == std::vector<std::string>{"synthetic", "prep", "cached", "fetch", "full"});
  CHECK(plan.cache_fraction == 1);
  CHECK(plan.most_subset_samples == 1000);
  CHECK(plan.memory_bytes <= given.host.memory_usable);
}

TEST_CASE("a dataset larger than memory is profiled on a subset that fits, with the cache fraction kept") {
  ProfileInputs given = inputs(1'000'000, 100'000);
  given.settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.35};
  const ProfilePlan plan = plan_profile(given);
  CHECK(plan.cache_fraction == doctest::Approx(0.35));
  CHECK(plan.most_subset_bytes < 8 * GiB * 6 / 10);
  CHECK(plan.memory_bytes <= 8 * GiB * 6 / 10 + 1);
}

TEST_CASE("of a cache larger than the dataset it is said that the dataset fits, and what is held") {
  const auto cache_line = [](ProfileInputs given) {
    given.settings.cache_size = ByteAmount{ByteAmount::Kind::bytes, Bytes{900} << 40, 0};
    const auto lines = plan_profile(given).lines;
    return *std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("cache:"); });
  };
  CHECK(cache_line(inputs(1000, 512)) == "cache: minio, 900 TiB: the whole dataset fits, so the cache holds its 500 KiB and no more");
  ProfileInputs larger = inputs(1'000'000, 100'000);
  CHECK(testing::says(cache_line(larger), "the whole dataset fits, so the cache holds all of the subset, at most 4."));
}

TEST_CASE("a cache that memory cannot hold, or a subset that cannot be cached, is refused with what would fit") {
  ProfileInputs given = inputs(1'000'000, 100'000);
  given.settings.cache_size = ByteAmount{ByteAmount::Kind::bytes, 50 * GiB, 0};
  CHECK_THROWS_AS(plan_profile(given), UsageError);
  ProfileInputs wide = inputs(1'000'000, 100'000);
  wide.settings.subset = ByteAmount{ByteAmount::Kind::bytes, 20 * GiB, 0};
  CHECK(testing::says(testing::error_of([&] { plan_profile(wide); }), "--subset"));
}

TEST_CASE("without an accelerator the runs that need one are left out, and asking for them is an error that says how to get G") {
  ProfileInputs given = inputs(1000, 1000);
  given.settings.accelerator = AcceleratorKind::none;
  const ProfilePlan plan = plan_profile(given);
  CHECK(plan.runs == std::vector<std::string>{"fetch", "prep", "full"});
  ProfileInputs asked = inputs(1000, 1000);
  asked.settings.accelerator = AcceleratorKind::none;
  asked.settings.runs = {"cached"};
  CHECK(testing::says(testing::error_of([&] { plan_profile(asked); }), "--accelerator"));
}

TEST_CASE("more real cores than this process may use are refused, virtual ones are not") {
  ProfileInputs given = inputs(1000, 1000);
  given.settings.cores = 24;
  plan_profile(given);
  CHECK(given.settings.workers == 24);
  ProfileInputs real = inputs(1000, 1000);
  real.settings.prep = Seam::real;
  real.settings.cores = 24;
  CHECK_THROWS_AS(plan_profile(real), UsageError);
}

TEST_CASE("an emulated dataset cannot be decoded or read from a real disk") {
  ProfileInputs prep = inputs(1000, 1000);
  prep.settings.prep = Seam::real;
  CHECK(testing::says(testing::error_of([&] { plan_profile(prep); }), "--prep"));
  ProfileInputs storage = inputs(1000, 1000);
  storage.settings.storage = Seam::real;
  CHECK(testing::says(testing::error_of([&] { plan_profile(storage); }), "--storage"));
}

}  // namespace
}  // namespace dsanalyze
