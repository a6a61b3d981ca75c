#include <doctest/doctest.h>

#include <algorithm>

#include "answers.hpp"
#include "base/error.hpp"
#include "models/simulate/profile_simulation.hpp"

using namespace dsanalyze;
using testing::has_code;
using testing::rate_of;

namespace {

/// What one server of four measured: 10,000 samples of 100 kB, each cache holds 20 % of them.
ProfileResult profile_of_ranks() {
  ProfileResult profile;
  profile.ingestion = rate_of(20'000, 20);
  profile.prep = rate_of(10'000, 50);
  profile.cache = rate_of(50'000, 0);
  profile.storage = rate_of(400, 4);
  profile.network = rate_of(2000, 40);
  profile.fetch = rate_of(500, 5);
  profile.fetch->cache_fraction = 0.2;
  profile.settings.world = 4;
  profile.settings.partition = PartitionMode::partitioned;
  profile.host.cores = 8;
  profile.dataset.bytes = 1'000'000'000;
  profile.dataset.samples = 10'000;
  return profile;
}

WhatIfQuestion of_four(PartitionMode partition) {
  WhatIfQuestion question;
  question.servers = {4};
  question.partitions = {partition};
  return question;
}

double fetch_of_each(const RateModel& model, const WhatIfQuestion& question) { return answer(model, question).answers.at(1).fetch / 4; }

}  // namespace

TEST_CASE("answers from a profile of several ranks are of one server alone, and say so") {
  ProfileResult profile = profile_of_ranks();
  const WhatIfResult result = answer(rate_model(profile), {});
  const auto finding = std::ranges::find(result.findings, "one-server-alone", &Finding::code);
  REQUIRE(finding != result.findings.end());
  CHECK(finding->message.find("ran 4 ranks") != std::string::npos);
  CHECK(finding->message.find("--servers 4 --partition none,partitioned,locality.") != std::string::npos);
  CHECK(answer(rate_model(profile), of_four(PartitionMode::none)).findings.front().message.find("Ask for") == std::string::npos);
  profile.network.reset();
  CHECK(answer(rate_model(profile), {}).findings.front().message.find("--partition partitioned --network 40Gbit/s.") != std::string::npos);

  ProfileResult alone = profile_of_ranks();
  alone.settings = {};
  const WhatIfResult one = answer(rate_model(alone), {});
  CHECK_FALSE(has_code(one.findings, "one-server-alone"));
  CHECK(one.answers.front().samples_per_s == result.answers.front().samples_per_s);
}

TEST_CASE("servers that part the dataset have the profile's N, unless another is typed or asked about") {
  RateModel model = rate_model(profile_of_ranks());
  CHECK(model.network == 2000);
  CHECK(model.network_error == doctest::Approx(0.02));
  CHECK(answer(model, {}).network == 2000);
  // Of a server's samples 20 % are its own, 60 % the others', 20 % no server's.
  const WhatIfQuestion parted = of_four(PartitionMode::partitioned);
  CHECK(fetch_of_each(model, parted) == doctest::Approx(1 / (0.2 / 50'000 + 0.2 / 400)));
  take_typed_network("N=800±1%", model);
  CHECK(model.network == 800);
  CHECK(model.network_error == doctest::Approx(0.01));
  CHECK(fetch_of_each(model, parted) == doctest::Approx(1 / (0.2 / 50'000 + 0.6 / 800)));
  WhatIfQuestion linked = parted;
  linked.networks = {2e7};
  CHECK(fetch_of_each(model, linked) == doctest::Approx(1 / (0.2 / 50'000 + 0.6 / 200)));
  model.network.reset();
  CHECK_THROWS_WITH_AS(answer(model, parted), doctest::Contains("profile with --partition"), UsageError);
}

TEST_CASE("of ranks that train what they hold, what each cache holds counts, not how often it hits") {
  ProfileResult profile = profile_of_ranks();
  profile.fetch->cache_fraction = 0.95;
  profile.dataset.subset_bytes = 1'000'000'000;
  profile.ranks.resize(4);
  for (RankRecord& rank : profile.ranks) {
    rank.end = JobEnd::finished;
    rank.held_bytes = 250'000'000;
  }
  CHECK(rate_model(profile).cache_fraction == 0.25);
}

TEST_CASE("F of ranks may be above C, S and N, but not above what N and S give together") {
  ProfileResult profile = profile_of_ranks();
  profile.cache->ci95_samples_per_s = {990, 1010};
  profile.fetch->ci95_samples_per_s = {1490, 1510};
  CHECK_NOTHROW(rate_model(profile));
  profile.fetch->ci95_samples_per_s = {2490, 2510};
  CHECK_THROWS_WITH_AS(rate_model(profile), doctest::Contains("/rates/F/samples_per_s"), UsageError);
  profile.fetch->ci95_samples_per_s = {1490, 1510};
  profile.network.reset();
  CHECK_THROWS_WITH_AS(rate_model(profile), doctest::Contains("/rates/F/samples_per_s"), UsageError);
}

TEST_CASE("how sizes differ is as the profile says, and not known of one that does not") {
  ProfileResult profile = profile_of_ranks();
  CHECK_FALSE(rate_model(profile).size_variation.has_value());
  profile.distributions.sample_bytes = DistributionRecord{200, 10, {0, 1000}, 90};
  CHECK(rate_model(profile).size_variation == 0.45);
  profile.distributions.sample_bytes->deviation.reset();
  CHECK_FALSE(rate_model(profile).size_variation.has_value());
}

TEST_CASE("beside a profile N alone is typed") {
  RateModel model = rate_model(profile_of_ranks());
  for (const char* text : {"S=5", "N=1,P=7", "P@8=3", "N@4=9", "N=0", "N=fast", "N", "Q=1", "N=1,N=2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(take_typed_network(text, model), UsageError);
  }
  CHECK_THROWS_WITH_AS(take_typed_network("S=5", model), doctest::Contains("--rates S: the profile has its own"), UsageError);
}

TEST_CASE("storage that the profile's ranks shared is shared by the servers that are asked about, unless the question says another") {
  ProfileResult profile = profile_of_ranks();
  WhatIfQuestion question = of_four(PartitionMode::none);
  CHECK(answer(rate_model(profile), question).answers.at(1).change.storage_scope == "server");
  const double own = fetch_of_each(rate_model(profile), question);
  profile.settings.storage_scope = StorageScope::shared;
  CHECK(answer(rate_model(profile), question).answers.at(1).change.storage_scope == "shared");
  CHECK(fetch_of_each(rate_model(profile), question) < own / 3);
  question.scopes = {StorageScope::server};
  CHECK(fetch_of_each(rate_model(profile), question) == own);
}

TEST_CASE("locality is balanced from where the profile's ranks were, unless the question says another, and from storage needs no network") {
  ProfileResult profile = profile_of_ranks();
  profile.network.reset();
  profile.settings.batch_size = 8;
  profile.settings.accelerators = 4;
  profile.settings.balance_from = BalanceFrom::storage;
  const RateModel from_storage = rate_model(profile);
  WhatIfQuestion question = of_four(PartitionMode::locality);
  const WhatIfAnswer as_profiled = answer(from_storage, question).answers.at(1);
  CHECK(as_profiled.change.balance_from == "storage");
  CHECK(as_profiled.servers->network_bytes_server_epoch == 0);
  // 20 % are held nowhere, which leaves little of 4 x 32 samples to even out.
  CHECK(as_profiled.servers->storage_bytes_server_epoch == doctest::Approx((0.2 + 0.00489305) * 1e9 / 4).epsilon(1e-5));

  question.balances = {BalanceFrom::peers};
  CHECK_THROWS_WITH_AS(answer(from_storage, question), doctest::Contains("add --network"), UsageError);
  question.networks = {1e8};
  question.balances = {BalanceFrom::peers, BalanceFrom::storage};
  question.partitions = {PartitionMode::none, PartitionMode::locality};
  std::vector<std::string> balances;
  for (const WhatIfAnswer& each : answer(from_storage, question).answers) balances.push_back(each.change.partition + " " + each.change.balance_from);
  std::ranges::sort(balances);
  CHECK(balances == std::vector<std::string>{" ", "locality peers", "locality storage", "none "});
}

TEST_CASE("only locality-aware batches are balanced, so no other partition is asked where from") {
  const RateModel model = rate_model(profile_of_ranks());
  for (const PartitionMode partition : {PartitionMode::none, PartitionMode::partitioned}) {
    WhatIfQuestion question = of_four(partition);
    question.balances = {BalanceFrom::peers};
    CHECK(answer(model, question).answers.at(1).change.balance_from.empty());
    question.balances = {BalanceFrom::storage};
    CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--balance-from storage does not go together with any --partition but locality"),
                         UsageError);
  }
  WhatIfQuestion alone;
  alone.balances = {BalanceFrom::storage};
  CHECK_THROWS_WITH_AS(answer(model, alone), doctest::Contains("among how many servers"), UsageError);
}

TEST_CASE("rates of an emulated network are emulated") {
  ProfileResult profile = profile_of_ranks();
  CHECK_FALSE(answer(rate_model(profile), {}).model.starts_with("emulated"));
  profile.settings.network = Seam::emulated;
  CHECK(answer(rate_model(profile), {}).model.starts_with("emulated"));
}

TEST_CASE("the configuration that stands for an answer is of one server, whatever the profile ran, and several are not run for it") {
  ProfileResult profile = profile_of_ranks();
  profile.settings.partition = PartitionMode::locality;
  profile.settings.balance_from = BalanceFrom::storage;
  profile.settings.storage_scope = StorageScope::shared;
  profile.settings.network = Seam::emulated;
  profile.settings.network_bytes_per_s = 5e9;
  profile.settings.dataset = "/data";
  profile.settings.runs = {"full"};
  const ChangedSettings changed = changed_settings(profile, answer(rate_model(profile), {}).answers.front());
  CHECK(changed.why_not.empty());
  CHECK_FALSE(runs_ranks(changed.settings));
  CHECK_NOTHROW(changed.settings.validate());
  CHECK(changed.settings.network_bytes_per_s == 0);
  CHECK_FALSE(changed_settings(profile, answer(rate_model(profile), of_four(PartitionMode::partitioned)).answers.at(1)).why_not.empty());
}
