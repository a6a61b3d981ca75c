#include "models/whatif/whatif.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../base/texts.hpp"
#include "answers.hpp"
#include "base/error.hpp"
#include "core/cache_policy/page_cache_forms.hpp"
#include "models/simulate/profile_simulation.hpp"

using namespace dsanalyze;
using testing::advice_for;
using testing::has_code;
using testing::rate_of;
using testing::says;

namespace {

/// S and C from the 25 % and 50 % columns of [DS-Analyzer, Table 5].
constexpr double table5_cache = 251952;
constexpr double table5_storage = 4698.5;

RateModel model_of(double ingestion, double prep, double cache, double storage, double cache_fraction = 0) {
  RateModel model;
  model.rates = {ingestion, prep, cache, storage};
  model.cache_fraction = cache_fraction;
  return model;
}

ByteAmount share(double fraction) { return {ByteAmount::Kind::fraction, 0, fraction}; }

const WhatIfAnswer& with_cache(const WhatIfResult& result, double fraction) {
  return *std::ranges::find_if(result.answers, [&](const WhatIfAnswer& one) { return one.change.cache_fraction == fraction; });
}

WhatIfFound found_for(const RateModel& model, const std::string& question) {
  WhatIfQuestion asked;
  asked.find = {question};
  return answer(model, asked).found.at(0);
}

ProfileResult small_profile() {
  ProfileResult profile;
  profile.ingestion = rate_of(2000, 20);
  profile.prep = rate_of(1000, 50);
  profile.cache = rate_of(50'000, 0);
  profile.storage = rate_of(400, 4);
  profile.fetch = rate_of(600, 6);
  profile.fetch->cache_fraction = 0.35;
  profile.settings.accelerators = 4;
  profile.host.cores = 8;
  profile.dataset.bytes = 1'000'000'000;
  profile.dataset.samples = 10'000;
  return profile;
}

}  // namespace

TEST_CASE("S and C that reproduce Table 5's 25 % and 50 % columns predict its 35 % column within 0.2 %") {
  WhatIfQuestion question;
  question.cache_sizes = {share(0.25), share(0.35), share(0.5)};
  const WhatIfResult result = answer(model_of(30'000, 20'000, table5_cache, table5_storage), question);
  CHECK(with_cache(result, 0.25).fetch == doctest::Approx(6226).epsilon(0.002));
  CHECK(with_cache(result, 0.35).fetch == doctest::Approx(7164).epsilon(0.002));
  CHECK(with_cache(result, 0.5).fetch == doctest::Approx(9225).epsilon(0.002));
}

TEST_CASE("the first answer is the configuration as measured and the others are sorted best first") {
  WhatIfQuestion question;
  question.cache_sizes = {share(0.25), share(0.5)};
  question.accelerator_speeds = {2};
  const WhatIfResult result = answer(model_of(30'000, 20'000, table5_cache, table5_storage), question);
  REQUIRE(result.answers.size() == 4);
  CHECK_FALSE(result.answers[0].change.cache_fraction);
  CHECK(result.answers[0].speedup == 1);
  CHECK(result.answers[1].change.cache_fraction == 0.5);
  CHECK(result.answers[2].change.cache_fraction == 0.25);
  CHECK(result.answers[3].change.accelerator_speed == 2);
  CHECK(result.answers[1].speedup == doctest::Approx(result.answers[1].samples_per_s / result.answers[0].samples_per_s));
}

TEST_CASE("every combination holds each factor as measured too") {
  WhatIfQuestion question;
  question.cache_sizes = {share(0.25), share(0.5)};
  question.accelerator_speeds = {2, 3};
  question.combine = WhatIfQuestion::Combine::every_combination;
  CHECK(answer(model_of(3000, 2000, 50'000, 400), question).answers.size() == 9);
}

TEST_CASE("too many combinations are refused") {
  WhatIfQuestion question;
  question.cache_sizes.assign(1000, share(0.5));
  question.accelerator_speeds.assign(1000, 2);
  question.combine = WhatIfQuestion::Combine::every_combination;
  CHECK_THROWS_AS(answer(model_of(3000, 2000, 50'000, 400), question), UsageError);
}

TEST_CASE("F's interval follows the partial derivatives of Eq 4 and min takes the lowest low and the lowest high") {
  RateModel model = model_of(9000, 8000, 2000, 500, 0.5);
  model.cache_error = 0.1;
  model.storage_error = 0.02;
  const WhatIfAnswer base = answer(model, {}).answers[0];
  const double fetch = 1 / (0.5 / 2000 + 0.5 / 500);
  const double half = fetch * fetch * std::hypot(0.5 / 2000 * 0.1, 0.5 / 500 * 0.02);
  CHECK(base.samples_per_s == doctest::Approx(fetch));
  CHECK(base.ci95_samples_per_s.low == doctest::Approx(fetch - half));
  CHECK(base.ci95_samples_per_s.high == doctest::Approx(fetch + half));

  RateModel wide = model_of(1000, 1010, 50'000, 5000);
  wide.ingestion_error = 0.01;
  wide.prep_error = 0.1;
  const WhatIfAnswer close = answer(wide, {}).answers[0];
  CHECK(close.too_close);
  CHECK(close.ci95_samples_per_s.low == doctest::Approx(909));
  CHECK(close.ci95_samples_per_s.high == doctest::Approx(1010));
}

TEST_CASE("overlapping intervals are inconclusive and neighbouring ones are not") {
  RateModel model = model_of(5000, 1000, 50'000, 1100);
  model.prep_error = model.storage_error = 0.05;
  CHECK(answer(model, {}).answers[0].too_close);
  CHECK(has_code(answer(model, {}).findings, "too-close-to-call"));
  model.prep_error = model.storage_error = 0.04;
  CHECK_FALSE(answer(model, {}).answers[0].too_close);
  CHECK_FALSE(has_code(answer(model, {}).findings, "too-close-to-call"));
}

TEST_CASE("P scales with cores, and beyond those measured that is said") {
  RateModel model = model_of(5000, 1000, 50'000, 4000);
  model.cores = model.measured_cores_high = 8;
  WhatIfQuestion question;
  question.cores = {{8.0, std::nullopt}};
  CHECK_FALSE(has_code(answer(model, question).findings, "prep-extrapolated"));
  question.cores = {{16.0, std::nullopt}};
  const WhatIfResult result = answer(model, question);
  CHECK(result.answers[1].prep == doctest::Approx(2000));
  CHECK(has_code(result.findings, "prep-extrapolated"));
}

TEST_CASE("what has no base is refused with what to add, and factors are accepted") {
  const RateModel model = model_of(5000, 1000, 50'000, 4000);
  WhatIfQuestion cores;
  cores.cores = {{16.0, std::nullopt}};
  CHECK_THROWS_WITH_AS(answer(model, cores), doctest::Contains("--base cores="), UsageError);
  WhatIfQuestion bytes;
  bytes.cache_sizes = {{ByteAmount::Kind::bytes, 1'000'000, 0}};
  CHECK_THROWS_WITH_AS(answer(model, bytes), doctest::Contains("--base dataset="), UsageError);
  WhatIfQuestion accelerators;
  accelerators.accelerators = {4};
  CHECK_THROWS_WITH_AS(answer(model, accelerators), doctest::Contains("--base accelerators="), UsageError);
  WhatIfQuestion storage;
  storage.storage = {{5e8, std::nullopt}};
  CHECK_THROWS_WITH_AS(answer(model, storage), doctest::Contains("--base dataset="), UsageError);
  WhatIfQuestion factor;
  factor.cores = {{std::nullopt, 2.0}};
  CHECK(answer(model, factor).answers[1].change.cores_factor == 2);
}

TEST_CASE("a cache larger than the dataset is answered as the whole dataset") {
  WhatIfQuestion question;
  question.cache_sizes = {share(1.0)};
  CHECK_FALSE(has_code(answer(model_of(5000, 1000, 50'000, 400), question).findings, "cache-larger-than-dataset"));
  question.cache_sizes = {share(1.5)};
  const WhatIfResult result = answer(model_of(5000, 1000, 50'000, 400), question);
  CHECK(has_code(result.findings, "cache-larger-than-dataset"));
  CHECK(result.answers[1].fetch == doctest::Approx(50'000));
  RateModel sized = model_of(5000, 1000, 50'000, 400);
  sized.dataset_bytes = 1'500'000;
  question.cache_sizes = {{ByteAmount::Kind::bytes, Bytes{900} << 40, 0}};
  CHECK(says(answer(sized, question).findings.front().message, "--cache-size 900 TiB: the whole dataset fits, so the cache would hold its 1.43 MiB"));
}

TEST_CASE("a cache that is not MinIO is answered by its own misses, and what MinIO would miss is said") {
  RateModel model = model_of(50'000, 40'000, 50'000, 400, 0.5);
  CHECK_FALSE(has_code(answer(model, {}).findings, "cache-not-minio"));
  const double minio = answer(model, {}).answers[0].fetch;
  MissModel::Facts lru;
  lru.kind = CacheKind::lru;
  model.misses = MissModel(lru);
  const WhatIfResult result = answer(model, {});
  CHECK(has_code(result.findings, "cache-not-minio"));
  CHECK(result.answers[0].fetch < 0.7 * minio);
  CHECK(result.answers[0].fetch == doctest::Approx(effective_fetch_rate(1 - lru_misses(0.5), 50'000, 400)));
  WhatIfQuestion question;
  question.caches = {{CacheKind::minio, Admission::first}};
  CHECK(answer(model, question).answers[1].fetch == doctest::Approx(minio));
  CHECK(answer(model, question).answers[1].change.cache == "minio");
}

TEST_CASE("the smallest cache of another kind is where its own misses let fetch reach the target") {
  RateModel model = model_of(12'000, 3000, 50'000, 1000);
  MissModel::Facts facts;
  facts.kind = CacheKind::page_model_random;
  model.misses = MissModel(facts);
  const WhatIfFound found = found_for(model, "cache");
  REQUIRE(found.value);
  const double missed = random_replacement_misses(*found.value);
  CHECK(effective_fetch_rate(1 - missed, 50'000, 1000) == doctest::Approx(3000).epsilon(0.001));
  CHECK(*found.value > *cache_fraction_for(3000, 50'000, 1000));
}

TEST_CASE("cost-aware MinIO saves more of storage's time than bytes, where requests cost") {
  MissModel::Facts facts;
  facts.admission = Admission::cost_aware;
  facts.size_quantiles = {10'000, 50'000, 100'000, 200'000, 800'000};
  facts.cost = {0.008, 1 / 150e6};
  CHECK(MissModel(facts).storage_share(0.35) < 0.5);
  facts.cost = {0, 1 / 150e6};
  CHECK(std::abs(MissModel(facts).storage_share(0.35) - 0.65) < 0.01);
}

TEST_CASE("the page cache of Linux is replayed: in file order it misses everything, in random order more than MinIO") {
  MissModel::Facts facts;
  facts.kind = CacheKind::page;
  facts.order = OrderKind::sequential;
  CHECK(MissModel(facts).storage_share(0.5) > 0.95);
  facts.order = OrderKind::random;
  CHECK(MissModel(facts).storage_share(0.5) > 0.7);
  CHECK(MissModel(facts).storage_share(0.5) < 0.95);
  CHECK(MissModel(facts).storage_share(1) == 0);
}

TEST_CASE("the smallest cache is where fetch reaches the lower of P and G") {
  RateModel model = model_of(12'000, 10'208, table5_cache, table5_storage, 0.35);
  model.dataset_bytes = 146'000'000'000;
  const WhatIfFound found = found_for(model, "cache");
  REQUIRE(found.value);
  CHECK(effective_fetch_rate(*found.value, table5_cache, table5_storage) == doctest::Approx(10'208));
  CHECK(says(found.then, "prep is the bottleneck at 10,208 samples/s [P]; more memory buys nothing"));
  CHECK(says(found_for(model_of(12'000, 10'208, 9000, 400), "cache").then, "no cache removes the fetch stall"));
  CHECK_FALSE(found_for(model_of(12'000, 10'208, 9000, 400), "cache").value);
  CHECK(says(found_for(model_of(1000, 900, 50'000, 4000), "cache").then, "there is no fetch stall"));
}

TEST_CASE("the fewest cores are a whole number that reaches the lower of F and G") {
  RateModel model = model_of(2500, 1000, 50'000, 4000);
  model.cores = model.measured_cores_high = 8;
  CHECK(found_for(model, "cores").value == 20);
  CHECK(says(found_for(model, "cores").then, "the accelerators are the bottleneck at 2,500"));
  model.rates.prep = 3000;
  CHECK(says(found_for(model, "cores").then, "prep is not the bottleneck now"));
}

TEST_CASE("the most accelerators are those that the lower of F and P feeds") {
  RateModel model = model_of(8000, 3500, 50'000, 20'000);
  model.accelerators = 8;
  CHECK(found_for(model, "accelerators").value == 3);
  model.rates.prep = 3000;
  CHECK(found_for(model, "accelerators").value == 3);
  model.rates.prep = 900;
  CHECK_FALSE(found_for(model, "accelerators").value);
  CHECK(says(found_for(model, "accelerators").then, "not even one"));
}

TEST_CASE("the slowest storage removes the fetch stall, unless the cached part alone is too slow") {
  RateModel model = model_of(5000, 2000, 50'000, 500, 0.5);
  const auto factor = found_for(model, "storage").value;
  REQUIRE(factor);
  CHECK(effective_fetch_rate(0.5, 50'000, 500 * *factor) == doctest::Approx(2000));
  const WhatIfFound none = found_for(model_of(5000, 2000, 900, 500, 0.5), "storage");
  CHECK_FALSE(none.value);
  CHECK(says(none.then, "no storage removes the fetch stall"));
}

TEST_CASE("without G the answers are the data side's and accelerators cannot be asked about") {
  RateModel model = model_of(1, 1000, 50'000, 400);
  model.rates.ingestion.reset();
  const WhatIfResult result = answer(model, {});
  CHECK(result.answers[0].samples_per_s == doctest::Approx(400));
  CHECK(has_code(result.findings, "data-side-only"));
  CHECK(has_code(result.advice, "measure-accelerator"));
  CHECK(says(found_for(model, "cache").then, "on the data side"));
  WhatIfQuestion question;
  question.accelerator_speeds = {2};
  CHECK_THROWS_AS(answer(model, question), UsageError);
  CHECK_FALSE(has_code(answer(model_of(5000, 1000, 50'000, 400), {}).findings, "data-side-only"));
}

TEST_CASE("add-cache is advised when fetch is the bottleneck, and not when even C is too slow") {
  CHECK(has_code(advice_for(model_of(5000, 2000, 50'000, 500)), "add-cache"));
  CHECK_FALSE(has_code(advice_for(model_of(5000, 2000, 1900, 500)), "add-cache"));
}

TEST_CASE("faster-storage is advised when fetch is the bottleneck, and not when the cached part alone is too slow") {
  CHECK(has_code(advice_for(model_of(5000, 2000, 1100, 500, 0.5)), "faster-storage"));
  CHECK_FALSE(has_code(advice_for(model_of(5000, 2000, 1000, 500, 0.5)), "faster-storage"));
}

TEST_CASE("add-cores is advised when prep is the bottleneck, and not when it is as fast as the accelerators") {
  CHECK(has_code(advice_for(model_of(5000, 1000, 50'000, 4000)), "add-cores"));
  CHECK_FALSE(has_code(advice_for(model_of(5000, 5001, 50'000, 6000)), "add-cores"));
}

TEST_CASE("nothing-to-gain is said when the accelerators are the bottleneck, and not when that is inconclusive") {
  RateModel model = model_of(1000, 1050, 50'000, 4000);
  CHECK(has_code(advice_for(model), "nothing-to-gain"));
  model.prep_error = model.ingestion_error = 0.03;
  CHECK_FALSE(has_code(advice_for(model), "nothing-to-gain"));
}

TEST_CASE("measure-accelerator is advised without G alone") {
  CHECK_FALSE(has_code(advice_for(model_of(1000, 1050, 50'000, 4000)), "measure-accelerator"));
}

TEST_CASE("a profile gives its rates, their errors and what is behind them") {
  const RateModel model = rate_model(small_profile());
  CHECK(model.rates.ingestion == 2000);
  CHECK(model.prep_error == doctest::Approx(0.05));
  CHECK(model.cache_fraction == 0.35);
  CHECK(model.cores == 8);
  CHECK(model.accelerators == 4);
  CHECK(model.storage_bytes_per_s == doctest::Approx(4e7));
  CHECK_FALSE(model.emulated);
}

TEST_CASE("a larger machine than the profiled one has as many threads a core") {
  ProfileResult profile = small_profile();
  profile.host.cores = profile.host.cores_online = 2;
  profile.host.cores_physical = 1;
  profile.settings.cores = profile.settings.workers = 2;
  const auto prep_on = [&profile](double cores) {
    WhatIfQuestion question;
    question.cores = {{cores, std::nullopt}};
    return answer(rate_model(profile), question).answers[1].prep;
  };
  CHECK(prep_on(16) == doctest::Approx(8 * 1000));
  CHECK(prep_on(1) == doctest::Approx(1000 / 1.3));
  // Held to 8 threads of 64, which lie on 4 cores: the other 56 are no threads of those.
  profile.host.cores = 8;
  profile.host.cores_online = 64;
  profile.host.cores_physical = 4;
  profile.settings.cores = profile.settings.workers = 8;
  CHECK(prep_on(16) == doctest::Approx(2 * 1000));
}

TEST_CASE("what the full run measured stands beside what the rates give, and interference is said with its evidence") {
  ProfileResult profile = small_profile();
  CHECK_FALSE(answer(rate_model(profile), {}).attained);
  profile.attained = ProfileResult::Attained{410, {400, 420}, 600, {594, 606}, {"other processes took 30 % of the CPU"}};
  profile.stalls = ProfileResult::Stalls{};
  profile.stalls->interference = StallRecord{1, 0.31, {0.3, 0.32}};
  const WhatIfResult result = answer(rate_model(profile), {});
  REQUIRE(result.attained);
  CHECK(result.attained->samples_per_s == 410);
  CHECK(result.interference == 0.31);
  const auto finding = std::ranges::find(result.findings, "interference", &Finding::code);
  REQUIRE(finding != result.findings.end());
  CHECK(says(finding->message, "the full run reached 410 ± 10 samples/s; by the rates it would be 600 ± 6"));
  CHECK(says(finding->message, "31 % of the epoch: other processes took 30 % of the CPU"));
  profile.stalls->interference.reset();
  CHECK_FALSE(has_code(answer(rate_model(profile), {}).findings, "interference"));
  // Of several jobs the full run is another configuration than the one that is answered.
  profile.settings.jobs = 2;
  CHECK_FALSE(answer(rate_model(profile), {}).attained);
}

TEST_CASE("a scaled profile is scaled back up") {
  ProfileResult profile = small_profile();
  profile.settings.scale = 1000;
  CHECK(rate_model(profile).dataset_bytes == 1'000'000'000'000);
  CHECK(rate_model(profile).storage_bytes_per_s == doctest::Approx(4e10));
}

TEST_CASE("answers from emulated rates begin with the word emulated") {
  ProfileResult profile = small_profile();
  CHECK_FALSE(answer(rate_model(profile), {}).model.starts_with("emulated"));
  profile.settings.storage = Seam::emulated;
  profile.settings.storage_bytes_per_s = 1e8;
  CHECK(answer(rate_model(profile), {}).model.starts_with("emulated"));
}

TEST_CASE("answers from a profile in which the CPU trained say that they promise too much, others do not") {
  const auto warns = [](const ProfileResult& profile) {
    return std::ranges::count(answer(rate_model(profile), {}).findings, "accelerator-shares-cores", &Finding::code) == 1;
  };
  ProfileResult profile = small_profile();
  CHECK_FALSE(warns(profile));
  profile.host.accelerator_shares_cores = true;
  CHECK(warns(profile));
}

TEST_CASE("answers from a profile of several jobs are of one of them alone, and say so") {
  ProfileResult profile = small_profile();
  const WhatIfResult alone = answer(rate_model(profile), {});
  CHECK(std::ranges::count(alone.findings, "one-job-alone", &Finding::code) == 0);
  profile.settings.jobs = 8;
  profile.settings.share = JobSharing::coordinated;
  const WhatIfResult result = answer(rate_model(profile), {});
  CHECK(result.answers.front().samples_per_s == alone.answers.front().samples_per_s);
  const auto finding = std::ranges::find(result.findings, "one-job-alone", &Finding::code);
  REQUIRE(finding != result.findings.end());
  CHECK(finding->message.find("--jobs 8 --share none,coordinated") != std::string::npos);
}

TEST_CASE("the configuration that stands for an answer is of one job, whatever the profile ran") {
  ProfileResult profile = small_profile();
  profile.settings.jobs = 8;
  profile.settings.share = JobSharing::coordinated;
  profile.settings.producers = Producers::coordinator;
  profile.settings.batch_copy = BatchCopy::cpu;
  profile.settings.trials = 16;
  profile.settings.stop_at_epochs = 1;
  const ChangedSettings changed = changed_settings(profile, answer(rate_model(profile), {}).answers.front());
  CHECK(changed.why_not.empty());
  CHECK_FALSE(runs_jobs(changed.settings));
  CHECK(changed.settings.batch_copy == BatchCopy::none);
  CHECK(changed.settings.producers == Producers::jobs);
  CHECK(changed.settings.trials == 0);
  CHECK_FALSE(changed.settings.stop_at_epochs.has_value());
}

TEST_CASE("an answer of several jobs is run as several jobs, and not simulated as one") {
  const ProfileResult profile = small_profile();
  WhatIfQuestion question;
  question.jobs = {4};
  question.shares = {JobSharing::coordinated};
  const WhatIfAnswer four = answer(rate_model(profile), question).answers.at(1);
  const ChangedSettings changed = changed_settings(profile, four);
  CHECK(changed.settings.jobs == 4);
  CHECK(changed.settings.share == JobSharing::coordinated);
  CHECK_FALSE(simulated_setup(profile, four).has_value());
}

TEST_CASE("a profile without a rate names the run to add") {
  ProfileResult profile = small_profile();
  profile.storage.reset();
  CHECK_THROWS_WITH_AS(rate_model(profile), doctest::Contains("\"fetch\""), UsageError);
}

TEST_CASE("typed rates carry their errors in either sign") {
  const RateModel model = rate_model_from_text("G=9.8k±2%,P=735+-1%,C=28000,S=4698", "cores=24,accelerators=8,dataset=100GB,samples=1M,cache=35%");
  CHECK(model.rates.ingestion == 9800);
  CHECK(model.ingestion_error == doctest::Approx(0.02));
  CHECK(model.prep_error == doctest::Approx(0.01));
  CHECK(model.storage_error == 0);
  CHECK(model.cores == 24);
  CHECK(model.accelerators == 8);
  CHECK(model.cache_fraction == doctest::Approx(0.35));
  CHECK(model.storage_bytes_per_s == doctest::Approx(4698 * 1e5));
}

TEST_CASE("wrong parts of typed rates are named") {
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2", ""), doctest::Contains("S (storage)"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3,X=4", ""), doctest::Contains("\"X\" is not known"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3,S@4=4", ""), doctest::Contains("only P@CORES and G@BATCH"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3,P@0=4", ""), doctest::Contains("above 0 after the @"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3,P@4=4", ""), doctest::Contains("--base cores="), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("G=5,P=1,C=2,S=3,G@4=4", ""), doctest::Contains("--base batch="), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=0,C=2,S=3", ""), doctest::Contains("--rates P"), UsageError);
  for (const char* const bytes : {"P=735MB/s,C=2,S=3", "P=40Gbit/s,C=2,S=3"})
    CHECK_THROWS_WITH_AS(rate_model_from_text(bytes, ""), doctest::Contains("expected samples/s"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,P=1,C=2,S=3", ""), doctest::Contains("given twice"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P,C=2,S=3", ""), doctest::Contains("P=VALUE"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1±100%,C=2,S=3", ""), doctest::Contains("--rates P"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3", "core=8"), doctest::Contains("did you mean \"cores\""), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3", "cache=1GiB"), doctest::Contains("dataset="), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1,C=2,S=3", "cache=35"), doctest::Contains("--base cache: \"35\" has no unit; write 35%"), UsageError);
  CHECK_THROWS_WITH_AS(rate_model_from_text("P=1±2,C=2,S=3", ""), doctest::Contains("--rates P: \"2\" has no unit; write 2%"), UsageError);
}

TEST_CASE("a rate less sure than its own size makes no answer below nothing") {
  RateModel model = model_of(20'000, 21'000, 1e6, 4650, 0.35);
  model.prep_error = 1.25;
  const WhatIfResult result = answer(model, {});
  REQUIRE_FALSE(result.answers.empty());
  CHECK(result.answers[0].ci95_samples_per_s.low == 0);
}
