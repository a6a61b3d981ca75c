#include "core/records/scenario.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../base/texts.hpp"
#include "base/error.hpp"

using namespace dsanalyze;
using testing::replaced;

namespace {

const std::string whole = R"({
  "name": "two-jobs", "description": "two jobs", "source": "made up",
  "dataset": {"samples": 1000, "mean_sample_bytes": 110000, "sample_bytes_deviation": 0.4},
  "order": {"kind": "shards", "shuffle_buffer_samples": 64, "readers": 2, "shard_samples": 100},
  "jobs": 2, "job_orders": "same", "stagger_fraction": 0.5, "turn_samples": 16, "epochs": 4, "unit_bytes": 4096,
  "storage": "hdd", "policies": ["minio:cost-aware", "belady"], "cache_sizes": ["35%", "4GiB"], "seed": 18446744073709551615
})";

std::string failure_of(const std::string& text) {
  try {
    parse_scenario(text, "s.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a scenario is read with all that it says") {
  const Scenario scenario = parse_scenario(whole, "s.json");
  CHECK(scenario.name == "two-jobs");
  CHECK(scenario.preset.empty());
  CHECK(scenario.dataset.samples == 1000);
  CHECK(scenario.dataset.mean_sample_bytes == 110'000);
  CHECK(scenario.dataset.sample_bytes_deviation == 0.4);
  CHECK(scenario.order == OrderSpec{OrderKind::shards, 64, 0, 1, 2});
  CHECK(scenario.shard_samples == 100);
  CHECK(scenario.jobs == 2);
  CHECK(scenario.job_orders == Scenario::JobOrders::same);
  CHECK(scenario.stagger == 0.5);
  CHECK(scenario.turn_samples == 16);
  CHECK(scenario.epochs == 4);
  CHECK(scenario.unit_bytes == 4096);
  CHECK(scenario.storage == "hdd");
  CHECK(scenario.policies == std::vector{ReplayPolicy::minio_cost_aware, ReplayPolicy::belady});
  REQUIRE(scenario.cache_sizes.size() == 2);
  CHECK(scenario.cache_sizes[0].fraction == 0.35);
  CHECK(scenario.cache_sizes[1].bytes == Bytes{4} << 30);
  CHECK(scenario.seed == UINT64_MAX);
}

TEST_CASE("what a scenario may leave out has its default") {
  const Scenario scenario = parse_scenario(R"({"name": "a", "description": "b", "source": "c", "dataset": {"preset": "imagenet-1k"},
    "policies": ["lru"], "cache_sizes": ["1GiB"]})",
                                           "s.json");
  CHECK(scenario.preset == "imagenet-1k");
  CHECK(scenario.samples == 0);
  CHECK(scenario.order == OrderSpec{});
  CHECK(scenario.jobs == 1);
  CHECK(scenario.epochs == 3);
  CHECK_FALSE(scenario.seed);
}

TEST_CASE("a pipeline needs storage, one job, and rates above 0") {
  const std::string text = R"({"name": "a", "description": "b", "source": "c", "dataset": {"preset": "imagenet-1k"}, "storage": "ssd",
    "pipeline": {"prep": {"cores": 24, "samples_per_s_per_core": 425}, "accelerators": {"count": 8, "samples_per_s": 1375}, "batch_size": 512},
    "policies": ["lru"], "cache_sizes": ["1GiB"]})";
  const auto changed = [&text](const std::string& what, const std::string& by) {
    std::string copy = text;
    return copy.replace(copy.find(what), what.size(), by);
  };
  const Scenario scenario = parse_scenario(text, "s.json");
  REQUIRE(scenario.pipeline);
  CHECK(scenario.pipeline->cores == 24);
  CHECK(scenario.pipeline->prep_rate_per_core == 425);
  CHECK(scenario.pipeline->accelerators == 8);
  CHECK(scenario.pipeline->accelerator_rate == 1375);
  CHECK(scenario.pipeline->batch_size == 512);
  CHECK(failure_of(changed("\"storage\": \"ssd\",", "")).starts_with("s.json: /pipeline: found without /storage"));
  CHECK(failure_of(changed("\"storage\"", "\"jobs\": 2, \"storage\"")).starts_with("s.json: /pipeline: found with several /jobs"));
  CHECK(failure_of(changed("\"storage\"", "\"epochs\": 1, \"storage\"")).starts_with("s.json: /pipeline: found with one epoch"));
  CHECK(failure_of(changed("425", "0")).starts_with("s.json: /pipeline/prep/samples_per_s_per_core: found 0"));
  CHECK(failure_of(changed("\"count\"", "\"number\"")).starts_with("s.json: /pipeline/accelerators/number: "));
}

TEST_CASE("what is wrong in a scenario is named with file, pointer, what was found and what was expected") {
  CHECK(failure_of(replaced(whole, "\"jobs\": 2", "\"jobs\": 0")) == "s.json: /jobs: found 0, expected an integer in [1, 1024]");
  CHECK(failure_of(replaced(whole, "\"samples\": 1000", "\"samples\": 1e30")).starts_with("s.json: /dataset/samples: found 1e+30"));
  CHECK(failure_of(replaced(whole, "\"samples\": 1000", "\"samples\": 4294967295")).starts_with("s.json: /dataset/samples: "));
  CHECK(failure_of(replaced(whole, "\"shards\"", "\"shard\"")).starts_with("s.json: /order/kind: "));
  CHECK(failure_of(replaced(whole, "0.5", "-1")).starts_with("s.json: /stagger_fraction: found -1"));
  CHECK(failure_of(replaced(whole, "\"jobs\": 2", "\"job\": 2")).find("s.json: /job") == 0);
  CHECK(failure_of(replaced(whole, "\"jobs\": 2", "\"job\": 2")).find("\"jobs\"") != std::string::npos);
  CHECK(failure_of(replaced(whole, "\"belady\"", "\"belaby\"")).find("s.json: /policies/1: found 'belaby'") == 0);
  CHECK(failure_of(replaced(whole, "\"belady\"", "\"belaby\"")).find("did you mean belady?") != std::string::npos);
  CHECK(failure_of(replaced(whole, "\"belady\"", "7")).starts_with("s.json: /policies/1: found 7, expected a text"));
  CHECK(failure_of(replaced(whole, "[\"35%\", \"4GiB\"]", "[]")).starts_with("s.json: /cache_sizes: "));
  CHECK(failure_of(replaced(whole, "\"35%\"", "\"0%\"")).starts_with("s.json: /cache_sizes/0: found '0%', expected a size above 0"));
  CHECK(failure_of(replaced(whole, "\"35%\"", "\"-4GiB\"")).starts_with("s.json: /cache_sizes/0: "));
  CHECK(failure_of(replaced(whole, "\"35%\"", "\"35\"")).starts_with("s.json: /cache_sizes/0: \"35\" has no unit; write 35% "));
  CHECK(failure_of(replaced(whole, "\"storage\": \"hdd\", ", "")).starts_with("s.json: /policies: found minio:cost-aware, expected /storage"));
  CHECK(failure_of(replaced(whole, "\"name\": \"two-jobs\", ", "")).starts_with("s.json: /name: "));
  CHECK(failure_of(whole.substr(0, 100)).starts_with("s.json: "));
}
