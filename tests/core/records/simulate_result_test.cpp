#include "core/records/simulate_result.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "../sample_results.hpp"
#include "base/error.hpp"

using namespace dsanalyze;

TEST_CASE("later epochs are all but the first, and their amplification is that of one of them, over the dataset") {
  const SimulateResult result = test::full_simulation();
  const CaseCounts& counts = result.cases[0];
  REQUIRE(later_epochs(counts));
  CHECK(*later_epochs(counts) == AccessCounts{2000, 600, 220'000, 154'000});
  CHECK(later_epoch_count(counts) == 1);
  CHECK(read_amplification(154'000, 1, 110'000) == doctest::Approx(1.4));
  CHECK(read_amplification(308'000, 2, 110'000) == doctest::Approx(1.4));
  CHECK(read_amplification(1, 0, 110'000) == 0);
  CHECK_FALSE(later_epochs(result.cases[1]));
}

TEST_CASE("a simulation's record has hits, misses, bytes and amplification by epoch and by job") {
  const auto document = nlohmann::json::parse(to_json(test::full_simulation()));
  CHECK(document["source"]["from"] == "scenario");
  const auto& one = document["cases"][0];
  CHECK(one["policy"] == "lru");
  CHECK(one["cache_fraction"].get<double>() == doctest::Approx(0.35));
  CHECK(one["epochs"][1]["hits"] == 600);
  CHECK(one["epochs"][1]["misses"] == 1400);
  CHECK(one["epochs"][1]["miss_fraction"].get<double>() == doctest::Approx(0.7));
  CHECK(one["epochs"][1]["read_bytes"] == 154'000);
  CHECK(one["epochs"][1]["read_amplification"].get<double>() == doctest::Approx(1.4));
  CHECK(one["jobs"][1]["epochs"][0]["hits"] == 300);
  CHECK(one["later_epochs"]["misses"] == 1400);
  CHECK(document["cases"][1]["later_epochs"].is_null());
  CHECK(document["recorded"]["policy"] == "minio:cost-aware");

  CHECK(one["pipeline"]["bottleneck"] == "io");
  CHECK(one["pipeline"]["F"] == 6000);
  CHECK(one["pipeline"]["G"].is_null());
  CHECK(document["cases"][1]["pipeline"].is_null());

  SimulateResult trace = test::full_simulation();
  trace.times.clear();
  trace.orders.reset();
  trace.name.clear();
  const auto of_trace = nlohmann::json::parse(to_json(trace));
  CHECK(of_trace["source"]["from"] == "trace");
  CHECK(of_trace["source"]["name"].is_null());
  CHECK(of_trace["orders"].is_null());
  CHECK_FALSE(of_trace["cases"][0].contains("pipeline"));
}

TEST_CASE("policy names read back, and a typing mistake gets a suggestion") {
  for (const std::string& name : replay_policy_names()) CHECK(replay_policy_name(parse_replay_policy(name)) == name);
  CHECK(replay_policy_name(ReplayPolicy::belady) == "belady");
  CHECK(replay_policy_name(ReplayPolicy::page_model_linux) == "page-model:linux");
  CHECK_THROWS_WITH_AS(parse_replay_policy("beladi"), doctest::Contains("did you mean belady?"), UsageError);
  CHECK_THROWS_WITH_AS(parse_replay_policy(""), doctest::Contains("expected none, minio"), UsageError);
}

TEST_CASE("a loader's cache is replayed by the policy of its name; the kernel's page cache decides nothing that is known") {
  CHECK(replay_policy_of(CacheKind::minio, Admission::first) == ReplayPolicy::minio);
  CHECK(replay_policy_of(CacheKind::minio, Admission::cost_aware) == ReplayPolicy::minio_cost_aware);
  CHECK(replay_policy_of(CacheKind::page, Admission::first) == ReplayPolicy::none);
  for (const CacheKind kind : {CacheKind::none, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux})
    CHECK(replay_policy_name(replay_policy_of(kind, Admission::first)) == cache_kind_name(kind));
  for (const CacheKind kind : {CacheKind::none, CacheKind::minio, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux}) {
    CHECK(cache_kind_of(replay_policy_of(kind, Admission::first)) == kind);
    CHECK(cache_kind_of(replay_policy_of(kind, Admission::cost_aware)) == kind);
  }
  CHECK(cache_kind_of(ReplayPolicy::belady) == CacheKind::none);
}
