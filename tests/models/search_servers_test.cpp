#include <doctest/doctest.h>

#include <cmath>

#include "../base/texts.hpp"
#include "answers.hpp"
#include "base/error.hpp"
#include "search_shop.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test_shop;
using testing::has_code;
using testing::says;

namespace {

/// Up to so many servers of the shop's parts, with a network of so many bytes/s between them.
SearchQuestion servers_question(int most, double network_bytes_per_s, std::optional<double> target = std::nullopt) {
  SearchQuestion question = question_of(target);
  question.prices.server.most = 64;
  for (int servers = 1; servers <= most; servers *= 2) question.servers.push_back(servers);
  question.prices.network = PriceList::NetworkPrice{hourly(0.1), network_bytes_per_s};
  return question;
}

/// One configuration of so many servers, nothing left to choose.
SearchPoint only_point(const RateModel& model, int servers, double cache_fraction, double network_bytes_per_s) {
  SearchQuestion question = servers_question(64, network_bytes_per_s);
  question.servers = {servers};
  question.cores = {12};
  question.accelerators = {4};
  question.cache_fractions = {cache_fraction};
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  question.prices.storage = {{"disk", question.prices.storage.at("disk")}};
  question.prices.storage.at("disk").price_per_mb_per_s = std::nullopt;
  return search_setups(model, question).fastest;
}

}  // namespace

TEST_CASE("a target that no single server reaches is reached by several, and one that a single server reaches most cheaply is left to it") {
  const double one = search_setups(measured_model(), servers_question(1, 5e9)).fastest.samples_per_s;
  const SearchResult beyond = search_setups(measured_model(), servers_question(16, 5e9, 3 * one));
  REQUIRE(beyond.cheapest);
  CHECK(beyond.cheapest->setup.servers > 1);
  CHECK(beyond.cheapest->samples_per_s >= 3 * one * (1 - 1e-9));
  CHECK(has_code(beyond.findings, "servers-in-closed-form"));
  CHECK(says(beyond.conclusions.front(), "servers"));
  const SearchResult within = search_setups(measured_model(), servers_question(16, 5e9, one / 20));
  REQUIRE(within.cheapest_hour.value_or(*within.cheapest).setup.servers == 1);
  CHECK_FALSE(has_code(search_setups(measured_model(), servers_question(1, 5e9)).findings, "servers-in-closed-form"));
}

TEST_CASE("what several servers reach is what the what-if answers say of them, with the way of parting their caches that brings most") {
  RateModel model = measured_model();
  model.batch_size = 64;
  const double network = 2e9;
  const SearchPoint point = only_point(model, 4, 0.25, network);
  RateModel as_bought = model;
  as_bought.rates.storage = point.storage;
  as_bought.network = network / sample_bytes;
  WhatIfQuestion question;
  question.cache_sizes = {ByteAmount{ByteAmount::Kind::fraction, 0, 0.25}};
  question.servers = {4};
  question.partitions = {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality};
  question.combine = WhatIfQuestion::Combine::every_combination;
  double best = 0;
  for (const WhatIfAnswer& answer : answer(as_bought, question).answers)
    if (answer.servers && answer.change.cache_fraction) best = std::max(best, answer.samples_per_s);
  CHECK(point.samples_per_s == doctest::Approx(best).epsilon(1e-9));
  CHECK(point.setup.partition != PartitionMode::none);
  CHECK(says(setup_text(point.setup), "4 servers (" + partition_mode_name(point.setup.partition) + ") of 12 cores"));

  MissModel::Facts lru;
  lru.kind = CacheKind::lru;
  model.misses = MissModel(lru);
  CHECK(only_point(model, 4, 0.25, network).setup.partition == PartitionMode::none);
}

TEST_CASE("four servers cost four times one, an hour") {
  const SearchPoint one = only_point(measured_model(), 1, 0.25, 5e9);
  const SearchPoint four = only_point(measured_model(), 4, 0.25, 5e9);
  CHECK(four.cost_per_hour == doctest::Approx(4 * one.cost_per_hour).epsilon(1e-12));
  CHECK(one.setup.partition == PartitionMode::none);
}

TEST_CASE("up to 64 servers fit into the room, and more servers than the list has are no configurations") {
  const SearchResult several = search_setups(measured_model(), servers_question(64, 5e9, 5000));
  CHECK(several.setups <= 10'000);
  SearchQuestion question = servers_question(2, 5e9);
  question.prices.server.most = 2;
  question.servers = {4};
  CHECK_THROWS_AS(search_setups(measured_model(), question), UsageError);
  question.servers = {2, 4};
  CHECK(search_setups(measured_model(), question).fastest.setup.servers == 2);
}

TEST_CASE("the simulator of the search takes the profile's distributions of times and sizes") {
  const RateModel model = measured_model();
  SearchQuestion question = question_of();
  question.cores = {16};
  question.accelerators = {4};
  question.cache_fractions = {1};
  question.prices.accelerators = {{"usual", question.prices.accelerators.at("usual")}};
  const SearchPoint point = search_setups(model, question).fastest;
  ProfileResult::Distributions spread;
  spread.prep_seconds = DistributionRecord{1, 1000, {}};
  for (std::size_t i = 0; i < DistributionRecord::points; ++i) spread.prep_seconds->quantiles.push_back(i < 90 ? 0.2 : 8);
  const auto constant = epoch_simulation(model, question.prices)(point);
  const auto distributed = epoch_simulation(model, question.prices, spread)(point);
  REQUIRE(constant);
  REQUIRE(distributed);
  CHECK(std::fabs(*distributed / *constant - 1) > 1e-6);
  CHECK(*distributed == doctest::Approx(*constant).epsilon(0.05));
}
