#include "models/whatif/training_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "advice_rig.hpp"
#include "answers.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "made_training.hpp"
#include "models/search/search.hpp"
#include "search_shop.hpp"

using namespace dsanalyze;
using testing::has_code;
using testing::Made;

namespace {

/// A hundred megabytes of samples of 100 kB, as much memory for the page cache, and storage of 500 samples/s for one reader and 800 for eight.
TrainingModel with_storage(Made made) {
  TrainingModel model = made.model();
  TrainingModel::Storage storage;
  storage.curve = {{1, 500}, {2, 600}, {8, 800}};
  storage.rate = 600;
  storage.error = 0.02;
  storage.cache_rate = 30'000;
  storage.bytes_per_sample = 100'000;
  storage.dataset_bytes = 100'000'000;
  storage.page_cache_bytes = 200'000'000;
  MissModel::Facts facts;
  facts.kind = CacheKind::page_model_linux;
  for (std::size_t order = 0; order < storage.misses.size(); ++order) {
    facts.order = static_cast<OrderKind>(order);
    storage.misses[order] = MissModel(facts);
  }
  model.storage = storage;
  return model;
}

}  // namespace

TEST_CASE("a training whose data fits in the page cache takes what it takes without storage, whatever that is") {
  const Made made{};
  const TrainingModel model = with_storage(made);
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(rates_of(made.model(), {}).samples_per_s).epsilon(0.01));
  CHECK(rates_of(model, {.storage_bytes_per_s = 1e6}).samples_per_s == doctest::Approx(rates_of(model, {}).samples_per_s));
  CHECK(rates_of(model, {.cached = 1}).miss_fraction == 0);
  // One that is a little faster than the best of what is here is no slower than that.
  for (const double cached : {0.2, 0.5, 0.8})
    CHECK(rates_of(model, {.cached = cached, .storage_bytes_per_s = 8.1e7}).samples_per_s >=
          0.99 * rates_of(model, {.cached = cached}).samples_per_s);
  WhatIfQuestion question;
  question.storage = {{1e6, std::nullopt}};
  CHECK(has_code(answer(model, question).findings, "storage-not-read"));
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.3}};
  question.combine = WhatIfQuestion::Combine::every_combination;
  const WhatIfResult result = answer(model, question);
  REQUIRE(result.answers.size() == 4);
  const WhatIfAnswer& both = result.answers.back();
  CHECK(both.change.cache_bytes == Bytes{30'000'000});
  CHECK(both.samples_per_s < 14);  // 1 MB/s of 100 kB, of which more than 70 % are missed
  CHECK(both.samples_per_s > 10);
  CHECK(both.bottleneck == "io");
  CHECK(both.detail == "storage");
  CHECK(both.stalls.fetch > 0.9);
  CHECK(both.stalls.compute + both.stalls.prep + both.stalls.fetch == doctest::Approx(1));
}

TEST_CASE("where storage is the limit, it supplies what it supplies, however P differs from its law") {
  TrainingModel model = with_storage({});
  model.step_samples = 1;
  model.ingestion = 1e5;
  for (TrainingModel::Point& point : model.prep) point.samples_per_s *= 0.4;
  model.path = path_of(model);
  const TrainingRates rates = rates_of(model, {.cached = 0.5, .storage_bytes_per_s = 1e6});
  CHECK(rates.samples_per_s * rates.miss_fraction == doctest::Approx(10).epsilon(0.12));
}

TEST_CASE("less memory, slower storage and fewer workers never make a training faster; enough of each removes the stall") {
  Made made;
  made.step = 0.01;
  made.workers = 8;
  TrainingModel model = with_storage(made);
  double last = 0;
  for (const double cached : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    const double rate = rates_of(model, {.cached = cached, .storage_bytes_per_s = 2e7}).samples_per_s;
    CHECK(rate >= 0.99 * last);
    last = rate;
  }
  model.storage->page_cache_bytes = 40'000'000;
  last = 0;
  for (const double rate : {1e6, 1e7, 3e7, 1e8, 1e9}) {
    const double reached = rates_of(model, {.storage_bytes_per_s = rate}).samples_per_s;
    CHECK(reached >= 0.99 * last);
    last = reached;
  }
  CHECK(rates_of(model, {.storage_factor = 0.01}).bottleneck == "io");
  model.storage->curve = {{1, 100}, {8, 100}};
  WhatIfQuestion question;
  question.find = {"cache", "storage"};
  const WhatIfResult result = answer(model, question);
  REQUIRE(result.found.size() == 2);
  const double wanted = rates_of(model, {.cached = 1}).samples_per_s;
  CHECK(rates_of(model, {.cached = *result.found[0].value}).samples_per_s >= 0.97 * wanted);
  CHECK(rates_of(model, {.cached = *result.found[0].value * 0.9}).samples_per_s < 0.99 * wanted);
  CHECK(rates_of(model, {.storage_bytes_per_s = *result.found[1].value}).samples_per_s >= 0.97 * wanted);
  CHECK(rates_of(model, {.storage_bytes_per_s = *result.found[1].value / 2}).samples_per_s < 0.97 * wanted);
}

TEST_CASE("another order of reading changes what the page cache finds again, and shards are no faster than files, as a finding says") {
  Made made;
  made.step = 0.005;
  made.workers = 8;
  TrainingModel model = with_storage(made);
  model.storage->curve = {{1, 100}, {8, 100}};
  model.storage->page_cache_bytes = 60'000'000;
  const TrainingRates random = rates_of(model, {});
  CHECK(random.miss_fraction > 0.4);
  CHECK(random.miss_fraction < 0.9);
  // In the order of the files, what comes next was evicted last.
  const TrainingRates in_order = rates_of(model, {.order = OrderKind::sequential});
  CHECK(in_order.miss_fraction > 0.95);
  CHECK(in_order.samples_per_s < random.samples_per_s);
  CHECK(rates_of(model, {.cached = 1, .order = OrderKind::sequential}).miss_fraction == 0);
  WhatIfQuestion question;
  question.orders = {OrderKind::shards, OrderKind::sequential};
  const WhatIfResult result = answer(model, question);
  CHECK(has_code(result.findings, "shards-not-read"));
  CHECK(std::ranges::find(result.answers, "shards", [](const WhatIfAnswer& each) { return each.change.order; })->storage == doctest::Approx(100));
  question.orders = {OrderKind::random};
  CHECK_FALSE(has_code(answer(model, question).findings, "shards-not-read"));
}

TEST_CASE("what was cold by chance is not what is predicted, and is named") {
  TrainingModel model = with_storage({});
  model.storage->found_fraction = 0.6;
  model.found *= 0.5;
  model.ci95_found = {0.49 * model.found, 0.51 * model.found};
  const WhatIfResult result = answer(model, {});
  CHECK(has_code(result.findings, "as-found-not-steady"));
  REQUIRE(steady_of(model));
  CHECK(steady_of(model)->miss_fraction == 0);
  CHECK(steady_of(model)->fetch_stall == 0);
  CHECK(steady_of(model)->samples_per_s == result.answers.front().samples_per_s);
  CHECK_FALSE(has_code(result.findings, "rates-do-not-explain"));
  CHECK(result.answers.front().samples_per_s == doctest::Approx(rates_of(Made{}.model(), {}).samples_per_s));
  model.storage->found_fraction = 0;
  CHECK_FALSE(steady_of(model));
  CHECK_FALSE(steady_of(Made{}.model()));
}

TEST_CASE("a storage of no rate is refused") {
  const TrainingModel model = with_storage({});
  WhatIfQuestion question;
  question.storage = {{.bytes_per_s = 0, .factor = std::nullopt}};
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--storage: found 0"), UsageError);
}

TEST_CASE("without the rates of storage, what needs them is refused with the reason") {
  const TrainingModel model = Made{}.model();
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.3}};
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--cache-size"), UsageError);
  question = {};
  question.find = {"storage"};
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--find storage"), UsageError);
  question = {};
  question.orders = {OrderKind::shards};
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--order"), UsageError);
}

TEST_CASE("where storage was measured, and not how long an epoch is, the refusal says how to get that") {
  ProfileResult profile = testing::storage_bound(Bytes{2} << 30);
  CHECK_FALSE(training_model(profile).epoch_unknown);
  profile.reads->dataset_bytes.reset();
  const TrainingModel model = training_model(profile);
  WhatIfQuestion question;
  CHECK(has_code(answer(model, question).findings, "storage-not-measured"));
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.3}};
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--cache-size: what an epoch of this training reads is not known"), UsageError);
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("(__len__)"), UsageError);
  CHECK_THROWS_WITH_AS(hardware_model(model), doctest::Contains("--time-budget"), UsageError);
}

namespace {

/// A loader whose workers do nothing but compute.
Made computing_on_four_cores() {
  Made made;
  made.seconds = made.cpu = 0.01;
  made.cores = 4;
  return made;
}

}  // namespace

TEST_CASE("for other hardware the loader has as many workers as it needs: P goes with the cores, and storage with the page cache") {
  Made made = computing_on_four_cores();
  made.workers = 1;
  TrainingModel model = with_storage(made);
  model.storage->page_cache_bytes = 50'000'000;
  const RateModel hardware = hardware_model(model);
  CHECK(hardware.enough_workers);
  CHECK(hardware.rates.prep == doctest::Approx(4 / (made.cpu + made.take)).epsilon(0.03));
  CHECK(hardware.rates.ingestion == doctest::Approx(made.steps(1)).epsilon(0.01));
  CHECK(hardware.rates.storage == doctest::Approx(750).epsilon(0.1));  // four workers, or a few more
  CHECK(hardware.cache_fraction == 0.5);
  CHECK(hardware.dataset_samples == 1000);
  WhatIfQuestion question;
  question.cores = {{8.0, std::nullopt}};
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 1}};
  question.combine = WhatIfQuestion::Combine::every_combination;
  const WhatIfResult result = answer(hardware, question);
  for (const WhatIfAnswer& one : result.answers) {
    const double cores = one.change.cores.value_or(4);
    CHECK(one.prep == doctest::Approx(std::min(cores / (made.cpu + made.take), 1 / made.take)).epsilon(0.02));
    if (one.change.cache_fraction == 1.0) CHECK(one.samples_per_s == doctest::Approx(std::min(one.prep, made.steps(1))).epsilon(0.02));
  }
}

TEST_CASE("a search for a training finds configurations that reach the target, and says that workers are as many as needed") {
  Made made = computing_on_four_cores();
  made.step = 0.002;
  made.outside = 0;
  TrainingModel model = with_storage(made);
  model.epoch_samples = 1000;
  const double target = 600;
  const SearchResult found = search_setups(hardware_model(model), test_shop::question_of(target));
  CHECK(has_code(found.findings, "workers-as-needed"));
  REQUIRE(found.cheapest);
  CHECK(found.cheapest->samples_per_s >= target);
  CHECK(found.cheapest->setup.cores >= 6);
}

TEST_CASE("other hardware needs the rates of storage and the CPU time of the workers") {
  CHECK_THROWS_WITH_AS(hardware_model(Made{}.model()), doctest::Contains("storage [S]"), UsageError);
  CHECK_THROWS_WITH_AS(hardware_model(with_storage(Made{.outside = 0.008})), doctest::Contains("40 % of a step lies outside"), UsageError);
  TrainingModel model = with_storage({});
  model.worker_cpu.reset();
  CHECK_THROWS_WITH_AS(hardware_model(model), doctest::Contains("CPU time"), UsageError);
}

TEST_CASE("however many workers there are, storage supplies no more than it can") {
  Made made;
  made.step = 1e-3;
  made.cores = 64;
  TrainingModel model = with_storage(made);
  model.storage->curve = {{1, 20}, {8, 20}};
  for (const double cached : {0.3, 0.99}) {
    const double misses = rates_of(model, {.cached = cached}).miss_fraction;
    REQUIRE(misses > 0);
    for (const int workers : {2, 8, 64}) {
      INFO(cached, " ", workers);
      CHECK(rates_of(model, {.workers = workers, .cached = cached}).delivered <= 20 / misses * 1.1);
    }
  }
}

TEST_CASE("without workers a little that comes from storage is neither the bottleneck nor half of the time") {
  Made made;
  made.workers = 0;
  TrainingModel model = with_storage(made);
  model.prep.insert(model.prep.begin(), {0, 100, 0.01, std::nullopt});
  model.found = 80;
  model.path = path_of(model);
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.999}};
  const WhatIfAnswer answered = answer(model, question).answers.back();
  CHECK(answered.bottleneck == "cpu");
  CHECK(answered.stalls.fetch < 0.05);
  CHECK(answered.stalls.prep > 0.5);
  CHECK(answered.stalls.compute + answered.stalls.prep + answered.stalls.fetch == doctest::Approx(1));
}
