#include "models/search/search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "../base/texts.hpp"
#include "answers.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "search_shop.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test_shop;
using testing::has_code;
using testing::says;

namespace {

bool dominates(const SearchPoint& one, const SearchPoint& other) {
  const bool no_worse = one.cost_per_epoch <= other.cost_per_epoch && one.epoch_seconds <= other.epoch_seconds;
  return no_worse && (one.cost_per_epoch < other.cost_per_epoch * (1 - 1e-9) || one.epoch_seconds < other.epoch_seconds * (1 - 1e-9));
}

SearchPoint point_at(double cost, double seconds) {
  SearchPoint point;
  point.cost_per_epoch = cost;
  point.epoch_seconds = seconds;
  return point;
}

/// Every point of a small space, by asking for one value of each list at a time.
std::vector<SearchPoint> one_by_one(const RateModel& model, const SearchQuestion& question) {
  std::vector<SearchPoint> points;
  for (const double cores : question.cores)
    for (const double fraction : question.cache_fractions)
      for (const int count : question.accelerators)
        for (const auto& [accelerator, accelerator_price] : question.prices.accelerators)
          for (const auto& [storage, storage_price] : question.prices.storage) {
            if (count > accelerator_price.most) continue;
            SearchQuestion one = question;
            one.cores = {cores};
            one.cache_fractions = {fraction};
            one.accelerators = {count};
            one.prices.accelerators = {{accelerator, accelerator_price}};
            one.prices.storage = {{storage, storage_price}};
            one.prices.storage.at(storage).price_per_mb_per_s = std::nullopt;
            // G is that of the usual kind, which is not on this list of one.
            RateModel scaled = model;
            *scaled.rates.ingestion *= accelerator_price.relative_speed.value;
            one.measured_accelerator = accelerator;
            points.push_back(search_setups(scaled, one).fastest);
          }
  return points;
}

SearchQuestion small_question(std::optional<double> target) {
  SearchQuestion question = question_of(target);
  question.prices.storage.at("disk").price_per_mb_per_s = std::nullopt;
  question.cores = {2, 7, 12, 40};
  question.cache_fractions = {0, 0.2, 0.55, 1};
  question.accelerators = {1, 3, 8};
  return question;
}

}  // namespace

TEST_CASE("the front is what a comparison of every point with every other leaves") {
  RandomStream random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<SearchPoint> points;
    points.reserve(60);
    for (int at = 0; at < 60; ++at) points.push_back(point_at(1 + static_cast<double>(random.below(30)), 1 + static_cast<double>(random.below(30))));
    const std::vector<SearchPoint> front = pareto_front(points);
    std::set<std::pair<double, double>> kept, expected;
    for (const SearchPoint& point : front) CHECK(kept.insert({point.cost_per_epoch, point.epoch_seconds}).second);
    for (const SearchPoint& point : points)
      if (std::ranges::none_of(points, [&](const SearchPoint& other) { return dominates(other, point); }))
        expected.insert({point.cost_per_epoch, point.epoch_seconds});
    CHECK(kept == expected);
    CHECK(std::ranges::is_sorted(front, {}, &SearchPoint::cost_per_epoch));
  }
}

TEST_CASE("configurations that cost and take the same stand on the front once, and differences by rounding are none") {
  CHECK(pareto_front({point_at(5, 10), point_at(5, 10), point_at(5, 10)}).size() == 1);
  CHECK(pareto_front({point_at(5, 10), point_at(5 + 1e-12, 10 - 1e-12)}).size() == 1);
  const std::vector<SearchPoint> faster_for_nothing = pareto_front({point_at(5, 10), point_at(5 + 1e-12, 8)});
  REQUIRE(faster_for_nothing.size() == 1);
  CHECK(faster_for_nothing[0].epoch_seconds == 8);
}

TEST_CASE("a front that is too long keeps its ends and stays spread") {
  std::vector<SearchPoint> front;
  front.reserve(100);
  for (int at = 0; at < 100; ++at) front.push_back(point_at(1 + at, 1000 * std::pow(0.97, at)));
  const std::vector<SearchPoint> thin = thinned_front(front, 20);
  REQUIRE(thin.size() == 20);
  CHECK(thin.front().cost_per_epoch == 1);
  CHECK(thin.back().cost_per_epoch == 100);
  for (std::size_t at = 1; at < thin.size(); ++at) CHECK(thin[at].cost_per_epoch - thin[at - 1].cost_per_epoch < 12);
  CHECK(thinned_front({point_at(1, 1)}, 20).size() == 1);
}

TEST_CASE("on a small space the search finds what asking for every configuration alone finds") {
  const RateModel model = measured_model();
  for (const double target : {1000.0, 2500.0, 3900.0, 7000.0, 9000.0}) {
    CAPTURE(target);
    const SearchQuestion question = small_question(target);
    const std::vector<SearchPoint> all = one_by_one(model, question);
    const SearchResult result = search_setups(model, question);
    REQUIRE(result.setups == all.size());
    const SearchPoint* cheapest = nullptr;
    const SearchPoint* smallest = nullptr;
    double fastest = 0;
    for (const SearchPoint& point : all) {
      fastest = std::max(fastest, point.samples_per_s);
      if (point.ci95_samples_per_s.low >= target && (cheapest == nullptr || point.cost_per_epoch < cheapest->cost_per_epoch)) cheapest = &point;
      if (point.ci95_samples_per_s.low >= target && (smallest == nullptr || point.cost_per_hour < smallest->cost_per_hour)) smallest = &point;
    }
    CHECK(result.fastest.samples_per_s == doctest::Approx(fastest));
    REQUIRE((cheapest != nullptr) == (result.reach == Reach::conditionally));
    if (cheapest != nullptr) {
      CHECK(result.cheapest->cost_per_epoch == doctest::Approx(cheapest->cost_per_epoch));
      CHECK((result.cheapest_hour ? *result.cheapest_hour : *result.cheapest).cost_per_hour == doctest::Approx(smallest->cost_per_hour));
    }
    for (const SearchPoint& point : result.front) CHECK(std::ranges::none_of(all, [&](const SearchPoint& other) { return dominates(other, point); }));
  }
}

TEST_CASE("no configuration of the whole space dominates a point of the front, whose ends are the cheapest and the fastest") {
  const SearchResult result = search_setups(measured_model(), question_of());
  REQUIRE(result.front.size() > 3);
  REQUIRE(result.front.size() <= 20);
  for (const SearchPoint& one : result.front)
    for (const SearchPoint& other : result.front) CHECK_FALSE(dominates(one, other));
  CHECK(result.front.front().setup == result.cheapest->setup);
  CHECK(result.front.back().setup == result.fastest.setup);
  CHECK(result.setups > 1000);
  CHECK(result.setups <= 10'000);
}

TEST_CASE("costs are those of the parts, by the hour and by the epoch") {
  SearchQuestion question = question_of();
  question.cores = {10};
  question.cache_fractions = {0.5};
  question.accelerators = {2};
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  question.prices.storage = {{"flash", question.prices.storage.at("flash")}};
  const SearchPoint point = search_setups(measured_model(), question).fastest;
  const double gib = 1024.0 * 1024 * 1024;
  CHECK(point.costs_per_hour.server == 0.5);
  CHECK(point.costs_per_hour.cores == doctest::Approx(0.4));
  CHECK(point.costs_per_hour.memory == doctest::Approx(0.005 * (16 + 50e9 / gib)));
  CHECK(point.costs_per_hour.accelerators == doctest::Approx(4));
  CHECK(point.costs_per_hour.storage == doctest::Approx(0.06));
  CHECK(point.cost_per_hour == doctest::Approx(point.costs_per_hour.total()));
  CHECK(point.samples_per_s == doctest::Approx(4000));
  CHECK(point.cost_per_epoch == doctest::Approx(point.cost_per_hour * 250 / 3600));
  CHECK(point.bottleneck == "gpu");
  CHECK(point.next == "cpu");
  CHECK(point.next_samples_per_s == doctest::Approx(5000));
}

TEST_CASE("the first epoch takes what storage alone takes, and is spoken of where that is long") {
  SearchQuestion question = question_of();
  question.cores = {64};
  question.accelerators = {8};
  question.cache_fractions = {1};
  const SearchResult cached = search_setups(measured_model(), question);
  const SearchPoint& point = cached.fastest;
  CHECK(point.first_epoch_seconds == doctest::Approx(samples / std::min({point.ingestion, point.prep, point.storage})));
  CHECK(point.first_epoch_seconds > 1.5 * point.epoch_seconds);
  CHECK(says(cached.conclusions.at(1), "the first epoch, which fills the cache, takes"));
  question.cache_fractions = {0};
  CHECK_FALSE(says(search_setups(measured_model(), question).conclusions.at(1), "first epoch"));
}

TEST_CASE("bandwidth above what comes with the volume is paid for") {
  SearchQuestion question = question_of();
  question.cores = {10};
  question.cache_fractions = {0};
  question.accelerators = {2};
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  question.prices.storage = {{"disk", question.prices.storage.at("disk")}};
  const SearchResult result = search_setups(measured_model(), question);
  for (const SearchPoint& point : result.front) {
    const double above = std::max(0.0, point.setup.storage_bytes_per_s - 100e6) / 1e6;
    CHECK(point.costs_per_hour.storage == doctest::Approx(0.01 + 0.0005 * above));
    CHECK(point.storage == doctest::Approx(point.setup.storage_bytes_per_s / sample_bytes));
  }
}

TEST_CASE("an epoch's time as target is the rate that it takes") {
  SearchQuestion question = question_of();
  question.target = SearchQuestion::Target{"5min", std::nullopt, 300};
  const SearchResult result = search_setups(measured_model(), question);
  REQUIRE(result.target);
  CHECK(result.target->samples_per_s == doctest::Approx(samples / 300));
  REQUIRE(result.cheapest);
  CHECK(result.cheapest->epoch_seconds <= 300);
  CHECK(says(result.conclusions.at(0), "Cheapest an epoch that reaches 5min"));
}

TEST_CASE("a target that no configuration reaches is called out of reach, with the best that there is") {
  const SearchResult result = search_setups(measured_model(), question_of(1e6));
  CHECK(result.reach == Reach::no);
  CHECK_FALSE(result.cheapest);
  CHECK(has_code(result.findings, "target-out-of-reach"));
  CHECK(result.fastest.samples_per_s > 10'000);
  CHECK(says(result.conclusions.at(0), "Out of reach"));
  CHECK_FALSE(has_code(search_setups(measured_model(), question_of(1000)).findings, "target-out-of-reach"));
}

TEST_CASE("a target within the interval of the fastest is only maybe reached") {
  const double most = search_setups(measured_model(0.1), question_of()).fastest.samples_per_s;
  const SearchResult close = search_setups(measured_model(0.1), question_of(most * 0.99));
  CHECK(close.reach == Reach::maybe);
  REQUIRE(close.cheapest);
  CHECK(close.cheapest->ci95_samples_per_s.low < most * 0.99);
  CHECK(close.cheapest->ci95_samples_per_s.high >= most * 0.99);
  CHECK(has_code(close.findings, "target-not-sure"));
  CHECK(says(close.conclusions.at(0), "The cheapest an epoch that is predicted to, though its interval begins at"));

  const SearchResult sure = search_setups(measured_model(0.1), question_of(most * 0.85));
  CHECK(sure.reach == Reach::conditionally);
  CHECK_FALSE(has_code(sure.findings, "target-not-sure"));
}

TEST_CASE("surely reaching costs more than only maybe reaching, by the width of the interval") {
  const SearchResult result = search_setups(measured_model(0.1), question_of(3000));
  REQUIRE(result.cheapest);
  CHECK(result.cheapest->ci95_samples_per_s.low >= 3000 * (1 - 1e-9));
  if (result.cheaper_maybe) {
    CHECK(result.cheaper_maybe->cost_per_epoch < result.cheapest->cost_per_epoch);
    CHECK(result.cheaper_maybe->samples_per_s >= 3000 * (1 - 1e-9));
    CHECK(result.cheaper_maybe->ci95_samples_per_s.low < 3000);
  }
  // Without an interval there is nothing that is only maybe reached.
  CHECK_FALSE(search_setups(measured_model(0), question_of(3000)).cheaper_maybe);
}

TEST_CASE("what an answer assumes stands in its sentence, and only an answer from measured numbers alone is sure") {
  SearchQuestion question = question_of(3000);
  const SearchResult assuming = search_setups(measured_model(), question);
  CHECK(assuming.reach == Reach::conditionally);
  for (const std::string& sentence : assuming.conclusions) CHECK_FALSE(says(sentence, "surely"));
  const SearchPoint& cheapest = *assuming.cheapest;
  REQUIRE_FALSE(cheapest.assumptions.empty());
  for (const std::string& assumption : cheapest.assumptions) CHECK(says(assuming.conclusions.at(0), assumption));
  CHECK(says(cheapest.assumptions.at(0), cheapest.setup.storage + " gives"));
  CHECK(says(cheapest.assumptions.at(0), "the list assumes it"));

  for (auto& [kind, storage] : question.prices.storage) {
    storage.most_bytes_per_s.provenance = storage.request_latency_seconds.provenance = Provenance::measured;
    storage.included_bytes_per_s->provenance = Provenance::measured;
  }
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  question.accelerators = {2, 4};
  const SearchResult sure = search_setups(measured_model(), question);
  CHECK(sure.reach == Reach::surely);
  CHECK(says(sure.conclusions.at(0), "Cheapest an epoch that surely reaches"));
  CHECK_FALSE(says(sure.conclusions.at(0), "provided"));

  // Each of these is one more: another number of accelerators, another kind, one that was not named, cores beyond those measured.
  const auto assumed = [&](auto change) {
    SearchQuestion other = question;
    RateModel model = measured_model();
    change(other, model);
    const SearchResult result = search_setups(model, other);
    CHECK(result.reach == Reach::conditionally);
    return result.conclusions.at(0);
  };
  CHECK(says(assumed([](auto& other, auto&) { other.accelerators = {8}; }), "G grows as the accelerators do, from 4 to 8"));
  CHECK(says(assumed([](auto& other, auto&) {
               other.prices.accelerators = {{"other", shop().accelerators.at("usual")}, {"fast", shop().accelerators.at("fast")}};
               other.prices.accelerators.at("fast").most = 1;
               other.measured_accelerator = "fast";
               other.accelerators = {4};
             }),
             "one other trains 0.5 times as fast as one fast"));
  CHECK(says(assumed([](auto& other, auto&) { other.measured_accelerator = std::nullopt; }), "G was measured on usual"));
  CHECK(says(assumed([](auto& other, auto& model) { model.measured_cores_high = 3, other.cores = {8}; }),
             "P goes on from 3 cores to 8 as if prep scaled linearly"));
}

TEST_CASE("what goes more than four times beyond the measured cores may reach a target, and is never sure to") {
  RateModel model = measured_model();
  model.cores = model.measured_cores_high = 2;
  model.rates.prep = 500;
  const SearchResult far = search_setups(model, question_of(3000));
  CHECK(far.reach == Reach::maybe);
  REQUIRE(far.cheapest);
  CHECK(far.cheapest->extrapolation > most_extrapolation);
  CHECK(says(far.conclusions.at(0), "No configuration surely reaches"));
  CHECK(says(std::ranges::find(far.findings, "target-not-sure", &Finding::code)->message,
             "beyond the servers, cores or accelerators that were measured"));
  const SearchResult near = search_setups(model, question_of(1500));
  CHECK(near.reach == Reach::conditionally);
  CHECK(near.cheapest->extrapolation <= most_extrapolation);
}

TEST_CASE("a global batch larger than the dataset is no configuration, and where nothing else is left that is said") {
  RateModel model = measured_model();
  model.dataset_samples = 1500;
  model.dataset_bytes = 1500 * 100'000;
  model.batch_size = 256;
  const SearchResult result = search_setups(model, question_of());
  for (const SearchPoint& point : result.front) CHECK(point.setup.accelerators * 256 <= 1500);
  SearchQuestion eight = question_of();
  eight.accelerators = {8};
  CHECK_THROWS_WITH_AS(search_setups(model, eight), doctest::Contains("a global batch larger than the dataset's 1,500 samples"), UsageError);
}

TEST_CASE("prices have an age, and old ones a warning") {
  SearchQuestion question = question_of();
  using namespace std::chrono;
  question.today = 2024y / December / 31;
  CHECK(search_setups(measured_model(), question).prices_age_days == 306);
  CHECK_FALSE(has_code(search_setups(measured_model(), question).findings, "prices-old"));
  question.today = 2026y / November / 22;
  const SearchResult old = search_setups(measured_model(), question);
  REQUIRE(has_code(old.findings, "prices-old"));
  CHECK(says(std::ranges::find(old.findings, "prices-old", &Finding::code)->message, "of 2024-02-29, 2.7 years ago"));
  question.today.reset();
  CHECK_FALSE(search_setups(measured_model(), question).prices_age_days);
}

TEST_CASE("the space holds the numbers of cores and the caches at which stages just keep up") {
  const SearchResult result = search_setups(measured_model(0), question_of(3100));
  REQUIRE(result.cheapest);
  // 500 samples/s a core: 7 of them bring 3,500; the usual numbers have no 7.
  CHECK(result.cheapest->samples_per_s >= 3100 * (1 - 1e-9));
  SearchQuestion usual = question_of(3100);
  usual.cores = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  CHECK(result.cheapest->cost_per_epoch <= search_setups(measured_model(0), usual).cheapest->cost_per_epoch);
}

TEST_CASE("the simulator's figures order the front, and turn down an answer that misses the target") {
  std::size_t asked = 0;
  SearchHooks hooks;
  // Says that caches are worth nothing beyond three quarters of what the closed form has.
  hooks.simulate = [&](const SearchPoint& point) -> std::optional<double> {
    ++asked;
    return point.setup.cache_fraction > 0 ? point.samples_per_s * 0.75 : point.samples_per_s;
  };
  const SearchResult plain = search_setups(measured_model(), question_of(3000));
  const SearchResult refined = search_setups(measured_model(), question_of(3000), hooks);
  CHECK(asked <= 20);
  CHECK(refined.simulated == asked);
  REQUIRE(refined.cheapest);
  REQUIRE(refined.cheapest->simulated);
  if (refined.cheapest->reach == Reach::conditionally) CHECK(refined.cheapest->simulated->samples_per_s >= 3000 * (1 - 1e-9));
  CHECK(refined.cheapest->cost_per_epoch >= plain.cheapest->cost_per_epoch);
  CHECK(has_code(refined.findings, "simulator-disagrees"));
  CHECK_FALSE(has_code(plain.findings, "simulator-disagrees"));
  for (const SearchPoint& one : refined.front)
    for (const SearchPoint& other : refined.front)
      if (one.simulated && other.simulated)
        CHECK_FALSE(
            (one.simulated->cost_per_epoch < other.simulated->cost_per_epoch && one.simulated->epoch_seconds < other.simulated->epoch_seconds));
}

TEST_CASE("a simulator that has no answer leaves the closed form's") {
  SearchHooks hooks;
  hooks.simulate = [](const SearchPoint&) -> std::optional<double> { return std::nullopt; };
  const SearchResult result = search_setups(measured_model(), question_of(3000), hooks);
  CHECK(result.simulated == 0);
  CHECK_FALSE(result.cheapest->simulated);
  CHECK(result.reach == Reach::conditionally);
}

TEST_CASE("progress goes up to one and may stop the search") {
  SearchHooks hooks;
  double last = -1;
  hooks.progress = [&](const Progress& progress) {
    CHECK(progress.fraction >= last);
    CHECK(progress.fraction <= 1);
    last = progress.fraction;
  };
  search_setups(measured_model(), question_of(), hooks);
  CHECK(last > 0.8);
  hooks.progress = [](const Progress&) { throw Interrupted(); };
  CHECK_THROWS_AS(search_setups(measured_model(), question_of(), hooks), Interrupted);
}

TEST_CASE("what the search cannot do without is named with what to give") {
  const auto refused = [](auto change, const std::string& part) {
    CAPTURE(part);
    RateModel model = measured_model();
    change(model);
    CHECK_THROWS_WITH_AS(search_setups(model, question_of()), doctest::Contains(part.c_str()), UsageError);
  };
  refused([](RateModel& model) { model.rates.ingestion = std::nullopt; }, "G=");
  refused([](RateModel& model) { model.cores = std::nullopt; }, "--base cores=");
  refused([](RateModel& model) { model.accelerators = std::nullopt; }, "--base accelerators=");
  refused([](RateModel& model) { model.dataset_bytes = std::nullopt; }, "--base dataset=");
  refused([](RateModel& model) { model.dataset_samples = std::nullopt; }, "samples=");
}

TEST_CASE("an accelerator that the list lacks is refused with the nearest, and one that was not named is assumed aloud") {
  SearchQuestion question = question_of();
  question.measured_accelerator = "usul";
  CHECK_THROWS_WITH_AS(search_setups(measured_model(), question), doctest::Contains("did you mean \"usual\"?"), UsageError);
  question.measured_accelerator = std::nullopt;
  CHECK(has_code(search_setups(measured_model(), question).findings, "accelerator-kind-assumed"));
  CHECK_FALSE(has_code(search_setups(measured_model(), question_of()).findings, "accelerator-kind-assumed"));
}

TEST_CASE("other kinds of accelerators are predicted by their relative speed") {
  SearchQuestion question = question_of();
  question.accelerators = {1};
  question.cores = {64};
  question.cache_fractions = {1};
  question.measured_accelerator = "slow";
  question.prices.accelerators = {{"slow", question.prices.accelerators.at("slow")}, {"fast", question.prices.accelerators.at("fast")}};
  // 2,000 samples/s on one that is half as fast as usual; the fast one is four times that.
  CHECK(search_setups(measured_model(), question).fastest.ingestion == doctest::Approx(8000));
}

TEST_CASE("lists that make more than the most configurations, or none at all, are refused") {
  SearchQuestion question = question_of();
  for (int cores = 1; cores <= 300; ++cores) question.cores.push_back(cores);
  for (int at = 0; at <= 50; ++at) question.cache_fractions.push_back(at / 50.0);
  CHECK_THROWS_WITH_AS(search_setups(measured_model(), question), doctest::Contains("more than 10000 configurations"), UsageError);
  SearchQuestion none = question_of();
  none.accelerators = {100};
  CHECK_THROWS_WITH_AS(search_setups(measured_model(), none), doctest::Contains("no configuration is left"), UsageError);
}

TEST_CASE("caches that the server's memory cannot hold are not offered") {
  SearchQuestion question = question_of();
  question.prices.memory.most_bytes = question.prices.server.memory_bytes + Bytes{30'000'000'000};
  const SearchResult result = search_setups(measured_model(), question);
  for (const SearchPoint& point : result.front) CHECK(point.setup.cache_bytes <= 30'000'000'000);
}

TEST_CASE("neighbours on the front whose intervals overlap are marked") {
  const auto marked = [](double error) {
    const SearchResult result = search_setups(measured_model(error), question_of());
    return std::ranges::count_if(result.front, &SearchPoint::close_to_cheaper);
  };
  CHECK(marked(0) == 0);
  CHECK(marked(0.4) > 0);
}

TEST_CASE("no simulated rate exceeds what a stage supplies, however few steps an epoch has") {
  RateModel model = measured_model();
  model.dataset_samples = 1500;
  model.dataset_bytes = static_cast<Bytes>(1500 * sample_bytes);
  model.batch_size = 64;
  const PriceList prices = shop();
  SearchQuestion question = question_of();
  question.prices.accelerators = {{"usual", prices.accelerators.at("usual")}};
  question.accelerators = {4};
  question.cache_fractions = {1};
  for (const double cores : {2.0, 8.0, 64.0}) {
    question.cores = {cores};
    const SearchPoint point = search_setups(model, question).fastest;
    const double simulated = epoch_simulation(model, prices)(point).value();
    CHECK(simulated <= std::min({point.prep, point.ingestion}));
    CHECK(simulated > 0.9 * point.samples_per_s);
  }
}

TEST_CASE("away from the crossover the epoch simulator says what the closed form says, for each stage that is the bottleneck") {
  RateModel model = measured_model();
  const PriceList prices = shop();
  const auto simulate = epoch_simulation(model, prices);
  const auto check = [&](double cores, int accelerators, const std::string& storage, const std::string& binds) {
    SearchQuestion question = question_of();
    question.cores = {cores};
    question.accelerators = {accelerators};
    question.cache_fractions = {0.5};
    question.prices.accelerators = {{"usual", prices.accelerators.at("usual")}};
    question.prices.storage = {{storage, prices.storage.at(storage)}};
    question.prices.storage.at(storage).price_per_mb_per_s = std::nullopt;
    const SearchPoint point = search_setups(model, question).fastest;
    CHECK(point.bottleneck == binds);
    const auto simulated = simulate(point);
    REQUIRE(simulated);
    CHECK(*simulated == doctest::Approx(point.samples_per_s).epsilon(0.02));
  };
  check(64, 8, "disk", "io");
  check(4, 8, "flash", "cpu");
  check(64, 1, "flash", "gpu");
  MissModel::Facts lru;
  lru.kind = CacheKind::lru;
  model.misses = MissModel(lru);
  CHECK_FALSE(epoch_simulation(model, prices)(search_setups(measured_model(), question_of()).fastest));
}
