#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../sample_results.hpp"
#include "base/error.hpp"

using namespace dsanalyze;
using nlohmann::json;

namespace {

/// Where one wrong value stands, and what it is.
struct Wrong {
  std::string pointer;
  json value;
};

template <typename Read>
void check_refused(const std::string& text, const std::vector<Wrong>& wrongs, const Read& read) {
  for (const Wrong& wrong : wrongs) {
    json document = json::parse(text);
    document[json::json_pointer(wrong.pointer)] = wrong.value;
    CAPTURE(wrong.pointer);
    CHECK_THROWS_WITH_AS(read(document.dump(), "r.json"), doctest::Contains(("r.json: " + wrong.pointer).c_str()), UsageError);
  }
}

/// Every key of the document, taken away, is missed, but for those that may be absent.
template <typename Read>
void check_needed(const std::string& text, const std::string& at, const std::vector<std::string>& optional, const Read& read) {
  const json object = json::parse(text)[json::json_pointer(at)];
  for (const auto& item : object.items()) {
    json document = json::parse(text);
    document[json::json_pointer(at)].erase(item.key());
    CAPTURE(item.key());
    if (std::ranges::find(optional, item.key()) != optional.end())
      CHECK_NOTHROW(read(document.dump(), "r.json"));
    else
      CHECK_THROWS_WITH_AS(read(document.dump(), "r.json"), doctest::Contains(item.key().c_str()), UsageError);
  }
}

template <typename Read>
void check_cut(const std::string& text, const Read& read) {
  for (std::size_t length = 0; length + 2 < text.size(); length += 211) CHECK_THROWS_AS(read(text.substr(0, length), "r.json"), UsageError);
}

}  // namespace

TEST_CASE("a what-if record with a search and a validation reads back equal, to the last digit") {
  WhatIfResult least;
  least.answers.resize(1);
  least.answers.front().bottleneck = "io";
  for (const WhatIfResult& result : {test::full_whatif(), least}) {
    const std::string text = to_json(result);
    CHECK(to_json(whatif_from_json(text, "r.json")) == text);
  }
  check_cut(to_json(test::full_whatif()), whatif_from_json);
}

TEST_CASE("wrong fields of a what-if record are refused by their place, and later ones ignored") {
  const std::string text = to_json(test::full_whatif());
  check_refused(text,
                {{"/schema", "dsanalyze.whatif/2"},
                 {"/source/P", -1},
                 {"/answers", json::array()},
                 {"/answers/0/bottleneck", "tpu"},
                 {"/answers/0/stalls", nullptr},
                 {"/answers/1/change/cores", "many"},
                 {"/answers/1/change/jobs", 0},
                 {"/answers/1/change/balance_from", 2},
                 {"/answers/1/ci95_samples_per_s/low", 1e9},
                 {"/answers/1/measured/covered", 1},
                 {"/answers/1/simulated/stall_p99_seconds", -1},
                 {"/found/0/question", "money"},
                 {"/advice/0/evidence", "none"},
                 {"/job_mix/answers", json::array()},
                 {"/job_mix/answers/1/jobs/0/samples_per_s", "fast"},
                 {"/job_mix/answers/1/method", "guessed"},
                 {"/job_mix/answers/1/share", "unified-producer"},
                 {"/job_mix/answers/1/staging_policy", "fifo"},
                 {"/job_mix/answers/1/scale", 0.5},
                 {"/job_mix/jobs/0/batch_size", 0},
                 {"/job_mix/P", -1},
                 {"/validation/outcome", "maybe"},
                 {"/validation/speed/slowest", nullptr},
                 {"/search/fastest/setup/partition", "torn"},
                 {"/search/front/0/reach", "perhaps"},
                 {"/search/front/0/costs_per_hour/memory", -0.1},
                 {"/search/conclusions", {1}},
                 {"/search/target/epoch_seconds", "3min"}},
                whatif_from_json);
  check_needed(text, "", {"attained", "search", "validation", "job_mix"}, whatif_from_json);
  check_needed(text, "/job_mix", {}, whatif_from_json);
  check_needed(text, "/job_mix/answers/1", {"staging_fraction", "staging_policy"}, whatif_from_json);
  check_needed(text, "/answers/0", {"G", "epoch_seconds", "extrapolation", "not_measured"}, whatif_from_json);
  check_needed(text, "/search/front/0", {"reach", "assumptions", "extrapolation", "simulated"}, whatif_from_json);
  json fewer = json::parse(text);
  fewer["job_mix"]["answers"][1]["jobs"].erase(0);
  CHECK_THROWS_WITH_AS(whatif_from_json(fewer.dump(), "r.json"), doctest::Contains("r.json: /job_mix/answers: found an answer about other jobs"),
                       UsageError);
  json later = json::parse(text);
  later["answers"][0]["change"]["colour"] = "red";
  CHECK(to_json(whatif_from_json(later.dump(), "r.json")) == text);
}

TEST_CASE("a simulation's record reads back equal: of a scenario with a pipeline, without one, and of a trace") {
  SimulateResult trace = test::full_simulation();
  trace.times.clear();
  SimulateResult plain = trace;
  trace.orders.reset();
  trace.name.clear();
  trace.digest.clear();
  trace.recorded.reset();
  for (const SimulateResult& result : {test::full_simulation(), plain, trace, test::simulated_draws()}) {
    const std::string text = to_json(result);
    CHECK(to_json(simulate_from_json(text, "r.json")) == text);
  }
  check_cut(to_json(test::full_simulation()), simulate_from_json);
}

TEST_CASE("wrong fields of replayed draws are refused by their place, and so are draws beside caches") {
  const std::string text = to_json(test::simulated_draws());
  check_refused(text,
                {{"/draws/rounds", -1},
                 {"/draws/recorded/policy", "fifo"},
                 {"/draws/recorded/fraction", 2},
                 {"/draws/stores/0/samples_prepared", "few"},
                 {"/draws/stores/0/prepared_per_sample", -0.5}},
                simulate_from_json);
  check_needed(text, "/draws", {}, simulate_from_json);
  json without = json::parse(text);
  without.erase("draws");
  CHECK_THROWS_WITH_AS(simulate_from_json(without.dump(), "r.json"), doctest::Contains("r.json: /cases"), UsageError);
  json both = json::parse(text);
  both["cases"] = json::parse(to_json(test::full_simulation()))["cases"];
  CHECK_THROWS_WITH_AS(simulate_from_json(both.dump(), "r.json"), doctest::Contains("r.json: /cases"), UsageError);
}

TEST_CASE("a simulation's seed of 64 bits is read back") {
  SimulateResult result = test::full_simulation();
  REQUIRE(result.orders);
  result.orders->seed = std::uint64_t{1} << 63;
  CHECK(simulate_from_json(to_json(result), "r.json").orders->seed == std::uint64_t{1} << 63);
}

TEST_CASE("wrong fields of a simulation's record are refused by their place, and so are counts that contradict each other") {
  const std::string text = to_json(test::full_simulation());
  check_refused(text,
                {{"/schema", "dsanalyze.simulate/0"},
                 {"/source/from", "hearsay"},
                 {"/orders", nullptr},
                 {"/orders/order", "backwards"},
                 {"/jobs", -1},
                 {"/cases", json::array()},
                 {"/cases/0/policy", "beladi"},
                 {"/cases/0/jobs/0/epochs/1/hits", 2000},
                 {"/cases/0/jobs/0/epochs/1/misses", 1},
                 {"/cases/0/jobs/0/epochs/1/epoch", 0},
                 {"/cases/0/epochs", json::array()},
                 {"/cases/0/pipeline/stalls/prep", "none"},
                 {"/recorded/cache_bytes", 1.5}},
                simulate_from_json);
  check_needed(text, "", {"orders", "recorded"}, [](const std::string& each, const std::string& source) {
    json document = json::parse(each);
    if (!document.contains("orders") && document.contains("source")) document["source"]["from"] = "trace";
    return simulate_from_json(document.dump(), source);
  });
  json uneven = json::parse(text);
  uneven["cases"][1].erase("pipeline");
  CHECK_THROWS_WITH_AS(simulate_from_json(uneven.dump(), "r.json"), doctest::Contains("/cases/1/pipeline"), UsageError);
}

TEST_CASE("bytes of a request that no whole number holds are refused") {
  WhatIfResult result = test::full_whatif();
  result.answers.back().change.request_bytes = 1e300;
  CHECK_THROWS_WITH_AS(whatif_from_json(to_json(result), "r.json"), doctest::Contains("request_bytes"), UsageError);
  ProfileResult profile = test::full_profile();
  profile.storage_by_request.push_back({1e300, 1, 1e6});
  CHECK_THROWS_WITH_AS(profile_from_json(to_json(profile), "r.json"), doctest::Contains("request_bytes"), UsageError);
}
