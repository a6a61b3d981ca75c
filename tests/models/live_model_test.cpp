#include "models/whatif/live_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

using namespace dsanalyze;
using Json = nlohmann::json;

namespace {

RateModel known_model() {
  RateModel model;
  model.rates = {2000.0, 1000, 50'000, 400};
  model.cache_fraction = 0.352;
  model.cores = 8;
  model.accelerators = 2;
  model.dataset_bytes = 1'000'000'000;
  model.dataset_samples = 10'000;
  return model;
}

const LiveSlider& slider(const LiveModel& live, const std::string& name) { return *std::ranges::find(live.sliders, name, &LiveSlider::name); }

Json json_of(const RateModel& model) { return Json::parse(to_json(live_model(model, "dsanalyze whatif"))); }

MissModel misses(CacheKind kind, OrderKind order, Admission admission = Admission::first) {
  MissModel::Facts facts;
  facts.kind = kind;
  facts.order = order;
  facts.admission = admission;
  return MissModel(facts);
}

}  // namespace

TEST_CASE("the cache's slider goes from nothing to the whole dataset in percents, and knows where the profile stood") {
  const LiveModel live = live_model(known_model(), "");
  const LiveSlider& cache = slider(live, "cache_fraction");
  REQUIRE(cache.values.size() == 101);
  CHECK(cache.values.front() == 0);
  CHECK(cache.values[35] == 0.35);
  CHECK(cache.values.back() == 1);
  CHECK(cache.measured == 0.352);
}

TEST_CASE("cores and accelerators go up to four times as many as measured, in whole ones") {
  const LiveModel live = live_model(known_model(), "");
  CHECK(slider(live, "cores").values.size() == 32);
  CHECK(slider(live, "cores").values.back() == 32);
  CHECK(slider(live, "accelerators").values == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  RateModel half = known_model();
  half.cores = 0.5;
  CHECK(slider(live_model(half, ""), "cores").values == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("absurdly many cores make a slider of a few hundred values") {
  RateModel model = known_model();
  model.cores = 1e6;
  const LiveModel live = live_model(model, "");
  CHECK(slider(live, "cores").values.size() <= 513);
  CHECK(slider(live, "cores").values.back() > 3.9e6);
}

TEST_CASE("factors rise from the least to the most, hold 1, and are 10 % apart at most") {
  const LiveModel live = live_model(known_model(), "");
  for (const auto& [name, low, high] : {std::tuple{"accelerator_speed", 0.25, 4.0}, std::tuple{"storage_factor", 0.1, 10.0}}) {
    const std::vector<double>& values = slider(live, name).values;
    CHECK(values.front() == low);
    CHECK(values.back() == high);
    CHECK(std::ranges::find(values, 1.0) != values.end());
    for (std::size_t i = 1; i < values.size(); ++i) {
      CHECK(values[i] > values[i - 1]);
      CHECK(values[i] <= values[i - 1] * 1.1 + 1e-12);
    }
  }
}

TEST_CASE("a slider whose base is not known is absent and says why") {
  RateModel model = known_model();
  model.rates.ingestion.reset();
  model.accelerators.reset();
  model.cores.reset();
  const LiveModel live = live_model(model, "");
  for (const char* name : {"cores", "accelerator_speed", "accelerators"}) {
    CHECK(slider(live, name).values.empty());
    CHECK_FALSE(slider(live, name).why_absent.empty());
  }
  CHECK_FALSE(slider(live, "storage_factor").values.empty());
}

TEST_CASE("a cache whose misses are replayed brings them for each of its slider's values, any other its form") {
  RateModel model = known_model();
  CHECK(json_of(model)["cache"]["form"] == "minio");
  model.misses = misses(CacheKind::lru, OrderKind::random);
  CHECK(json_of(model)["cache"]["form"] == "lru");
  model.misses = misses(CacheKind::page_model_random, OrderKind::sequential);
  CHECK(json_of(model)["cache"]["form"] == "random_in_order");
  model.misses = misses(CacheKind::lru, OrderKind::sequential);
  const LiveModel live = live_model(model, "");
  REQUIRE(live.storage_shares.size() == 101);
  CHECK(live.storage_shares.front() == 1);
  CHECK(live.storage_shares.back() == 0);
  CHECK(live.storage_shares[50] == model.misses.storage_share(0.5));
  CHECK(live.measured_storage_share == model.misses.storage_share(0.352));
  CHECK(Json::parse(to_json(live))["cache"]["form"] == "table");
}

TEST_CASE("cost-aware admission brings sizes and costs; without any cost it is plain MinIO") {
  MissModel::Facts facts;
  facts.admission = Admission::cost_aware;
  facts.size_quantiles = {10, 100, 1000};
  RateModel model = known_model();
  model.misses = MissModel(facts);
  CHECK(json_of(model)["cache"]["form"] == "minio");
  facts.cost = {0.001, 1e-8};
  model.misses = MissModel(facts);
  const Json cache = json_of(model)["cache"];
  CHECK(cache["form"] == "cost_aware");
  CHECK(cache["sizes_bytes"].size() == 20);
  CHECK(cache["seconds_per_request"] == 0.001);
}

TEST_CASE("what is written is JSON whatever the numbers and the command hold") {
  RateModel model = known_model();
  model.rates.cache = std::numeric_limits<double>::infinity();
  model.rates.ingestion.reset();
  const Json object = Json::parse(to_json(live_model(model, "dsanalyze whatif 'a\"\xff</script>'")));
  CHECK(object["C"].is_null());
  CHECK(object["G"].is_null());
  CHECK(object["prep_scaling"]["fit"]["physical_cores"].is_null());
  CHECK(object["prep_scaling"]["fit"]["corrections"].empty());
  CHECK(object["command"].get<std::string>().starts_with("dsanalyze whatif 'a\""));
}

TEST_CASE("prep's law is written with its corrections and with the fits that its errors move it to") {
  RateModel model = known_model();
  const std::vector<ScalingPoint> points{{1, 140, 0.01}, {4, 520, 0.02}, {8, 1000, 0}};
  model.scaling = FittedScaling(points, std::numeric_limits<double>::infinity());
  const Json scaling = json_of(model)["prep_scaling"];
  REQUIRE(scaling["fit"]["corrections"].size() == 3);
  const ScalingLaw& law = model.scaling.law();
  CHECK(scaling["fit"]["corrections"][1]["cores"] == 4);
  CHECK(scaling["fit"]["corrections"][1]["factor"] == 520 / law.rate(4));
  CHECK(scaling["moved_by_errors"].size() == 2);  // the third point has no error
}
