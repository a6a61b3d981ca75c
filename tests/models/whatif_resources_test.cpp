#include <doctest/doctest.h>

#include <algorithm>

#include "../base/numbers.hpp"
#include "../base/texts.hpp"
#include "answers.hpp"
#include "base/error.hpp"
#include "models/whatif/whatif.hpp"

using namespace dsanalyze;
using testing::close_to;
using testing::has_code;
using testing::says;

namespace {

/// 8 accelerators and 24 cores, a dataset of a million samples of 100 kB.
RateModel server() {
  RateModel model =
      rate_model_from_text("G=8000±1%,P=5000±1%,C=200000±1%,S=2000±2%", "cores=24,accelerators=8,batch=256,dataset=100GB,samples=1M,cache=35%");
  return model;
}

}  // namespace

TEST_CASE("P goes by the law through the typed points, and its interval widens beyond them") {
  const RateModel model = rate_model_from_text("G=80000,P=4800±1%,P@1=250±1%,P@8=1850±1%,C=200000,S=40000", "cores=24");
  WhatIfQuestion question;
  question.cores = {{48.0, std::nullopt}, {12.0, std::nullopt}};
  const WhatIfResult result = answer(model, question);
  const WhatIfAnswer& more = result.answers[1];
  const WhatIfAnswer& fewer = result.answers[2];
  CHECK(more.change.cores == 48);
  CHECK(more.prep < 2 * 4800);
  CHECK(more.prep > 4800);
  CHECK(fewer.prep > 2400);
  const auto width = [](const WhatIfAnswer& one) { return (one.ci95_samples_per_s.high - one.ci95_samples_per_s.low) / one.samples_per_s; };
  CHECK(width(more) > width(result.answers[0]));
  CHECK(has_code(result.findings, "prep-extrapolated"));
}

TEST_CASE("when prep peaks below what is wanted, no number of cores is found, and that is the advice") {
  RateModel model = rate_model_from_text("G=80000,P=4800,C=200000,S=40000", "cores=24");
  const ScalingLaw law{400, 0.02, 0.0015};
  std::vector<ScalingPoint> points;
  for (const double cores : {1.0, 4.0, 12.0, 24.0}) points.push_back({cores, law.rate(cores), 0.01});
  model.scaling = FittedScaling(points, 1e9);
  WhatIfQuestion question;
  question.find = {"cores"};
  const WhatIfResult result = answer(model, question);
  CHECK_FALSE(result.found[0].value);
  CHECK(result.found[0].then.find("prep stays the bottleneck") != std::string::npos);
  const auto advice = std::ranges::find(result.advice, "prep-does-not-scale", &AdviceRecord::code);
  REQUIRE(advice != result.advice.end());
  CHECK(says(advice->text, "More cores alone do not help"));
}

TEST_CASE("where the intervals of the points let prep reach what is wanted, that it never does is not certain") {
  WhatIfQuestion question;
  question.find = {"cores"};
  const WhatIfResult noisy = answer(rate_model_from_text("G=4000,P=1000±1%,P@1=600±50%,C=200000,S=40000", "cores=2"), question);
  CHECK_FALSE(noisy.found[0].value);
  CHECK(says(noisy.found[0].then, "not certain"));
  const auto advice = std::ranges::find(noisy.advice, "prep-does-not-scale", &AdviceRecord::code);
  REQUIRE(advice != noisy.advice.end());
  CHECK(says(advice->text, "Measure P longer"));
  const WhatIfResult sure = answer(rate_model_from_text("G=4000,P=1000±1%,P@1=600±1%,C=200000,S=40000", "cores=2"), question);
  CHECK(says(sure.found[0].then, "prep stays the bottleneck"));
}

TEST_CASE("G goes with the batch size by the fitted step, and one point alone says that it does not know") {
  WhatIfQuestion question;
  question.batch_sizes = {128};
  RateModel model = rate_model_from_text("G=8000,G@64=5000,P=50000,C=200000,S=100000", "batch=256");
  WhatIfResult result = answer(model, question);
  CHECK(*result.answers[1].ingestion > 5000);
  CHECK(*result.answers[1].ingestion < 8000);
  CHECK_FALSE(has_code(result.findings, "batch-not-measured"));
  model.ingestion_by_batch.clear();
  result = answer(model, question);
  CHECK(result.answers[1].ingestion == 8000);
  CHECK(has_code(result.findings, "batch-not-measured"));
  model.any_batch_size = true;
  CHECK_FALSE(has_code(answer(model, question).findings, "batch-not-measured"));
  model.batch_size.reset();
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("--base batch="), UsageError);
}

TEST_CASE("what goes more than four times beyond what was measured is marked, whichever resource it is, and what stays within is not") {
  RateModel model = server();
  const auto factor = [&model](const WhatIfQuestion& question) {
    const WhatIfResult result = answer(model, question);
    CHECK(result.answers[1].far_extrapolated() == has_code(result.findings, "extrapolated-far"));
    CHECK(result.answers[0].extrapolation == 1);
    return result.answers[1].extrapolation;
  };
  WhatIfQuestion cores, speed, accelerators, storage, batch, cache;
  cores.cores = {{24 * 5.0, std::nullopt}};
  CHECK(close_to(factor(cores), 5));
  cores.cores = {{24 * 4.0, std::nullopt}};
  CHECK(close_to(factor(cores), 4));
  CHECK_FALSE(answer(model, cores).answers[1].far_extrapolated());
  cores.cores = {{1.0, std::nullopt}};
  CHECK(factor(cores) == 1);
  speed.accelerator_speeds = {6};
  CHECK(close_to(factor(speed), 6));
  accelerators.accelerators = {64};
  CHECK(close_to(factor(accelerators), 8));
  storage.storage = {{std::nullopt, 10.0}};
  CHECK(close_to(factor(storage), 10));
  storage.storage = {{1e9, std::nullopt}};
  CHECK(close_to(factor(storage), 5));
  batch.batch_sizes = {32};
  CHECK(close_to(factor(batch), 8));
  cache.cache_sizes = {{ByteAmount::Kind::fraction, 0, 1}};
  CHECK(factor(cache) == 1);
  WhatIfQuestion both = speed;
  both.accelerator_speeds = {3};
  both.accelerators = {16};
  both.combine = WhatIfQuestion::Combine::every_combination;
  CHECK(has_code(answer(model, both).findings, "extrapolated-far"));
}

TEST_CASE("servers and jobs count as extrapolation against as many as the profile ran") {
  RateModel model = server();
  model.profiled_ranks = 2;
  model.profiled_jobs = 3;
  const auto factor = [&model](const WhatIfQuestion& question) {
    const WhatIfResult result = answer(model, question);
    CHECK(result.answers[1].far_extrapolated() == has_code(result.findings, "extrapolated-far"));
    return result.answers[1].extrapolation;
  };
  WhatIfQuestion servers, jobs;
  servers.servers = {400};
  CHECK(close_to(factor(servers), 200));
  servers.servers = {8};
  CHECK(close_to(factor(servers), 4));
  servers.servers = {1};
  CHECK(factor(servers) == 1);
  jobs.jobs = {15};
  CHECK(close_to(factor(jobs), 5));
  model.profiled_jobs = 1;
  CHECK(close_to(factor(jobs), 15));
}

TEST_CASE("G typed at a batch size is returned at that size, however badly the law of steps fits the points") {
  const RateModel model = rate_model_from_text("G=8000,G@64=5000,G@128=5200,G@512=7500,P=50000,C=200000,S=100000", "batch=256");
  WhatIfQuestion question;
  question.batch_sizes = {64, 128, 256, 512};
  for (const WhatIfAnswer& one : answer(model, question).answers) {
    if (!one.change.batch_size) continue;
    CAPTURE(*one.change.batch_size);
    const double typed = *one.change.batch_size == 64 ? 5000 : *one.change.batch_size == 128 ? 5200 : *one.change.batch_size == 256 ? 8000 : 7500;
    CHECK(close_to(*one.ingestion, typed));
  }
  question.batch_sizes = {96};
  const double between = *answer(model, question).answers[1].ingestion;
  CHECK(between > 5000);
  CHECK(between < 5200 * 1.05);
}

TEST_CASE("packing samples into shards is an answer by the storage curve, and past its points says so") {
  RateModel model = server();
  std::vector<StoragePoint> points;
  for (const double bytes : {16e3, 50e3, 100e3, 1e6}) points.push_back({bytes, 16, 16 * bytes / (0.0006 + bytes / 50e6)});
  points.push_back({100e3, 64, 1.5 * 16 * 100e3 / (0.0006 + 100e3 / 50e6)});
  model.storage_curve.emplace(points, 16);
  model.request_bytes = 100e3;
  model.fetch_concurrency = 16;
  WhatIfQuestion question;
  question.request_sizes = {1e6};
  WhatIfResult result = answer(model, question);
  CHECK(close_to(
      result.answers[1].fetch / result.answers[0].fetch,
      effective_fetch_rate(0.35, 200'000, 2000 * points[3].bytes_per_s / points[2].bytes_per_s) / effective_fetch_rate(0.35, 200'000, 2000)));
  CHECK_FALSE(has_code(result.findings, "storage-extrapolated"));
  question.request_sizes = {4e6};
  CHECK(has_code(answer(model, question).findings, "storage-extrapolated"));
  question.request_sizes.clear();
  question.concurrencies = {64};
  result = answer(model, question);
  CHECK(close_to(result.answers[1].fetch, effective_fetch_rate(0.35, 200'000, 3000)));
  model.storage_curve.reset();
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("run \"fetch\""), UsageError);
}

TEST_CASE("eight jobs that share nothing divide prep, and coordinated ones all get it") {
  const RateModel model = server();
  WhatIfQuestion question;
  question.jobs = {8};
  question.shares = {JobSharing::none, JobSharing::coordinated};
  const WhatIfResult result = answer(model, question);
  REQUIRE(result.answers.size() == 3);
  const WhatIfAnswer& coordinated = result.answers[1];
  const WhatIfAnswer& apart = result.answers[2];
  CHECK(coordinated.change.share == "coordinated");
  CHECK(close_to(coordinated.prep, 8 * 5000));
  CHECK(close_to(apart.prep, 5000));
  CHECK(close_to(*apart.ingestion, 64'000));
  REQUIRE(apart.jobs);
  CHECK(close_to(apart.jobs->samples_per_s_each * 8, apart.samples_per_s));
  CHECK(close_to(apart.epoch_seconds, 1e6 / apart.jobs->samples_per_s_each));
  CHECK(close_to(apart.jobs->reads_over_dataset, 8 * 0.65));
  CHECK(close_to(coordinated.jobs->reads_over_dataset, 0.65));
  CHECK(close_to(coordinated.jobs->prepared_over_dataset, 1));
}

TEST_CASE("servers that part the dataset ask the network instead of storage") {
  const RateModel model = server();
  WhatIfQuestion question;
  question.servers = {2};
  question.partitions = {PartitionMode::none, PartitionMode::partitioned};
  question.networks = {5e9};
  const WhatIfResult result = answer(model, question);
  REQUIRE(result.answers.size() == 3);
  const WhatIfAnswer& parted = result.answers[1];
  const WhatIfAnswer& apart = result.answers[2];
  REQUIRE(parted.servers);
  CHECK(parted.change.partition == "partitioned");
  CHECK(close_to(parted.servers->storage_bytes_server_epoch, 0.5 * 100e9 * 0.3, 1e-6));
  CHECK(close_to(apart.servers->storage_bytes_server_epoch, 0.5 * 100e9 * 0.65, 1e-6));
  CHECK(parted.fetch > apart.fetch);
  CHECK(close_to(*parted.ingestion, 16'000));
}

TEST_CASE("a page cache of each of several servers is replayed, and misses more than MinIO, less than it does on one server") {
  RateModel model = server();
  MissModel::Facts facts;
  facts.kind = CacheKind::page_model_linux;
  model.misses = MissModel(facts);
  model.cache_fraction = 0.65;
  WhatIfQuestion question;
  question.servers = {2, 100};
  const auto answers = answer(model, question).answers;
  REQUIRE(answers.size() == 3);
  const double alone = model.misses.storage_share(0.65);
  for (const WhatIfAnswer& each : {answers[1], answers[2]}) {
    const double share = each.servers->storage_bytes_server_epoch * *each.change.servers / 100e9;
    CHECK(share == doctest::Approx(model.misses.replayed_share_of_server(0.65, *each.change.servers)));
    CHECK(share > 0.35);
    CHECK(share < alone);
  }
  CHECK(model.misses.replayed_share_of_server(0, 2) == 1);
  CHECK(model.misses.replayed_share_of_server(1, 2) == 0);
}

TEST_CASE("where samples' sizes are known, so is by how much the server with the most to read holds the others up") {
  RateModel model = server();
  model.batch_size = 32;
  model.dataset_samples = 10'000;
  WhatIfQuestion question;
  question.servers = {8};
  const WhatIfAnswer unknown = answer(model, question).answers[1];
  CHECK(unknown.servers->slowest_excess == 0);
  model.size_variation = 0.5;
  const WhatIfAnswer known = answer(model, question).answers[1];
  CHECK(known.servers->slowest_excess > 0.01);
  CHECK(close_to(known.fetch * (1 + known.servers->slowest_excess), unknown.fetch));
}

TEST_CASE("that servers wait for the one with the most to fetch is said where fetching binds and it is a percent or more") {
  RateModel model = server();
  model.batch_size = 32;
  model.dataset_samples = 10'000;
  model.size_variation = 0.5;
  WhatIfQuestion question;
  question.servers = {8};
  const auto said = [&question](const RateModel& of) { return has_code(answer(of, question).findings, "slowest-server"); };
  REQUIRE(answer(model, question).answers[1].bottleneck == "io");
  CHECK(said(model));
  RateModel many = model;
  many.dataset_samples = 100'000'000;
  CHECK_FALSE(said(many));
  RateModel slow = model;
  slow.rates.ingestion = 10;
  CHECK(answer(slow, question).answers[1].servers->slowest_excess > 0.01);
  CHECK_FALSE(said(slow));
}

TEST_CASE("with locality, larger local batches move less: larger batches of each accelerator, or more accelerators in a server") {
  RateModel model = server();
  model.batch_size = 32;
  model.any_batch_size = true;
  WhatIfQuestion question;
  question.servers = {8};
  question.partitions = {PartitionMode::locality};
  question.networks = {5e9};
  question.combine = WhatIfQuestion::Combine::every_combination;
  const auto moved = [&model](const WhatIfQuestion& asked) {
    const auto answers = answer(model, asked).answers;
    const auto found = std::ranges::find_if(answers, [&asked](const WhatIfAnswer& answer) {
      return answer.servers && answer.change.batch_size.has_value() == !asked.batch_sizes.empty() &&
             answer.change.accelerators.has_value() == !asked.accelerators.empty();
    });
    REQUIRE(found != answers.end());
    return found->servers->network_bytes_server_epoch;
  };
  const double as_measured = moved(question);
  WhatIfQuestion larger = question;
  larger.batch_sizes = {4 * 32.0};
  // The root law of [Yang-Cong, Figure 6]: four times the batch moves half.
  CHECK(moved(larger) == doctest::Approx(as_measured / 2).epsilon(0.02));
  WhatIfQuestion more = question;
  more.accelerators = {4 * *model.accelerators};
  CHECK(moved(more) == doctest::Approx(as_measured / 2).epsilon(0.02));
}

TEST_CASE("a configuration that cannot be is left out with the reason, and only where none is left it is an error") {
  RateModel model = server();  // 8 x 256 samples a server
  WhatIfQuestion question;
  question.servers = {2, 3, 4096};
  question.partitions = {PartitionMode::locality};
  question.networks = {5e9};
  const WhatIfResult result = answer(model, question);
  CHECK(result.answers.size() == 3);
  const auto left_out = std::ranges::find(result.findings, "impossible-left-out", &Finding::code);
  REQUIRE(left_out != result.findings.end());
  CHECK(left_out->message ==
        "1 of 3 configurations were left out, for they cannot be: a global batch of 8,388,608 samples is larger than the dataset "
        "of 1,000,000.");
  question.servers = {4096};
  CHECK_THROWS_WITH_AS(answer(model, question), doctest::Contains("a global batch of 8,388,608 samples"), UsageError);
  WhatIfQuestion larger;
  larger.batch_sizes = {512, 200'000};
  model.any_batch_size = true;
  CHECK(answer(model, larger).answers.size() == 2);
  question.servers = {2};
  CHECK_FALSE(has_code(answer(model, question).findings, "impossible-left-out"));
}

TEST_CASE("no cores, and more servers than are answered, are left out and do not cost the answers to the rest of the list") {
  WhatIfQuestion question;
  question.cores = {{0.0, std::nullopt}, {48.0, std::nullopt}};
  const WhatIfResult cores = answer(server(), question);
  CHECK(cores.answers.size() == 2);
  CHECK(says(std::ranges::find(cores.findings, "impossible-left-out", &Finding::code)->message, "prep needs a core"));
  WhatIfQuestion servers;
  servers.servers = {2, 5'000'000};
  RateModel model = server();
  model.batch_size.reset();
  const WhatIfResult some = answer(model, servers);
  CHECK(some.answers.size() == 2);
  CHECK(says(std::ranges::find(some.findings, "impossible-left-out", &Finding::code)->message, "at most 4,096 servers"));
}

TEST_CASE("P that fell with the last cores measured is not extrapolated to rise again") {
  const RateModel model = rate_model_from_text("G=1000000,P=1321,P@1=1000,P@2=888,P@4=1433,C=1000000,S=1000000", "cores=8");
  WhatIfQuestion question;
  question.cores = {{16.0, std::nullopt}, {32.0, std::nullopt}, {4.0, std::nullopt}};
  for (const WhatIfAnswer& each : answer(model, question).answers) {
    if (each.change.cores == 4)
      CHECK(each.prep == doctest::Approx(1433));
    else
      CHECK(each.prep <= 1321 * (1 + 1e-9));
  }
}

TEST_CASE("what is found is as sure as the advice for the same change") {
  WhatIfQuestion question;
  question.find = {"cache", "cores", "storage"};
  const WhatIfResult open = answer(rate_model_from_text("G=8000±10%,P=8000±10%,C=200000±1%,S=1000±2%", "cores=24,cache=35%"), question);
  CHECK(says(open.advice.at(0).text, "more memory buys little"));
  CHECK(says(open.found[0].then, "more memory buys little"));
  CHECK(says(open.found[2].then, "faster storage buys little"));
  CHECK(says(open.advice.at(1).text, "beyond 4 times an answer is an estimate"));
  CHECK(says(open.found[2].then, "so this is an estimate, not certain"));
  const WhatIfResult sure = answer(rate_model_from_text("G=8000,P=9000,C=200000,S=3000", "cores=24,cache=35%"), question);
  CHECK(says(sure.found[0].then, "more memory buys nothing"));
  CHECK_FALSE(says(sure.found[2].then, "estimate"));
}

TEST_CASE("what is said of typed rates fits them: one core, no fitted law of one point, no profile to repeat") {
  WhatIfQuestion question;
  question.cores = {{4.0, std::nullopt}};
  question.find = {"cores"};
  const WhatIfResult one = answer(rate_model_from_text("G=5000,P=1000,C=100000,S=50000", "cores=1"), question);
  CHECK(says(one.found[0].then, "up to 1 core"));
  CHECK_FALSE(says(one.found[0].then, "1 cores"));
  CHECK(says(std::ranges::find(one.findings, "prep-extrapolated", &Finding::code)->message, "up to 1 core;"));
  const WhatIfResult close = answer(rate_model_from_text("G=1000±5%,P=1000±5%,C=100000,S=50000", ""), {});
  CHECK(says(close.advice.at(0).text, "Type rates of longer measurements"));
}

TEST_CASE("what jobs and servers need is asked for") {
  const RateModel model = server();
  const auto refused = [](const RateModel& asked, const WhatIfQuestion& question, const char* text) {
    CHECK_THROWS_WITH_AS(answer(asked, question), doctest::Contains(text), UsageError);
  };
  WhatIfQuestion question;
  question.shares = {JobSharing::coordinated};
  refused(model, question, "--jobs 8");
  question = {};
  question.partitions = {PartitionMode::locality};
  refused(model, question, "--servers 2");
  question.servers = {2};
  refused(model, question, "--network");
  question.jobs = {2};
  refused(model, question, "one at a time");
  question = {};
  question.servers = {2};
  refused(rate_model_from_text("P=5000,C=200000,S=2000", ""), question, "--base dataset=");
  RateModel lru = model;
  MissModel::Facts facts;
  facts.kind = CacheKind::lru;
  lru.misses = MissModel(facts);
  question.partitions = {PartitionMode::partitioned};
  question.networks = {1e9};
  refused(lru, question, "MinIO");
}

TEST_CASE("F above C and S both contradicts them") {
  ProfileResult profile;
  const auto rate = [](double value) {
    RateRecord record;
    record.samples_per_s = value;
    record.ci95_samples_per_s = {value, value};
    return record;
  };
  profile.prep = rate(100);
  profile.cache = rate(5000);
  profile.storage = rate(400);
  profile.fetch = rate(4000);
  CHECK_NOTHROW(rate_model(profile));
  profile.fetch = rate(6000);
  CHECK_THROWS_WITH_AS(rate_model(profile), doctest::Contains("/rates/F/samples_per_s"), UsageError);
}

TEST_CASE("prep goes to a GPU, or is split anew for other cores, and what the GPU prepares is not copied") {
  RateModel model = rate_model_from_text("G=60000,P=8000±1%,C=200000,S=90000", "cores=16,accelerators=1");
  model.transfer = 30000;
  WhatIfQuestion question;
  question.prep_places = {PrepPlace::gpu, PrepPlace::split, PrepPlace::cpu};
  CHECK_THROWS_AS(answer(model, question), UsageError);
  model.prep_servers = PrepServers{8000, 20000, 16, 1e-4};
  question.cores = {{8.0, std::nullopt}};
  question.combine = WhatIfQuestion::Combine::every_combination;
  const WhatIfResult result = answer(model, question);
  const auto found = [&](std::optional<PrepPlace> place, std::optional<double> cores) {
    return *std::ranges::find_if(result.answers,
                                 [&](const WhatIfAnswer& one) { return one.change.prep_place == place && one.change.cores == cores; });
  };
  CHECK(close_to(found(std::nullopt, std::nullopt).samples_per_s, 8000));
  CHECK(close_to(found(PrepPlace::cpu, std::nullopt).samples_per_s, 8000));
  CHECK(close_to(found(PrepPlace::gpu, std::nullopt).samples_per_s, 20000));
  CHECK(close_to(found(PrepPlace::split, std::nullopt).samples_per_s, 27000));
  CHECK(close_to(found(std::nullopt, 8.0).samples_per_s, 4000));
  CHECK(close_to(found(PrepPlace::gpu, 8.0).samples_per_s, 20000));
  CHECK(close_to(found(PrepPlace::split, 8.0).samples_per_s, 20000 + 4000 * (1 - 20000 * 1e-4 / 8)));
  // Copies are slow: the split leaves the cores so few samples that copies and the GPU end together.
  model.transfer = 5000;
  question.cores = {};
  const WhatIfResult copies = answer(model, question);
  for (const WhatIfAnswer& one : copies.answers) {
    if (one.change.prep_place == PrepPlace::split) CHECK(close_to(one.samples_per_s, 25000));
    if (one.change.prep_place == PrepPlace::gpu) CHECK(close_to(one.samples_per_s, 20000));
    if (one.change.prep_place == PrepPlace::cpu) CHECK(close_to(one.samples_per_s, 5000));
  }
}

TEST_CASE("cores that prep needs are counted beside the GPU that prepares, too") {
  RateModel model = rate_model_from_text("G=60000,P=20000±1%,C=200000,S=90000", "cores=16,accelerators=1");
  model.prep_servers = PrepServers{8000, 20000, 16, 1e-4};
  model.prep_place = PrepPlace::gpu;
  model.gpu_share = 1;
  WhatIfQuestion question;
  question.find = {"cores"};
  const WhatIfResult on_gpu = answer(model, question);
  CHECK_FALSE(on_gpu.found.front().value);
  CHECK(on_gpu.found.front().then.find("beside the GPU it reaches 20,000") != std::string::npos);
  for (const AdviceRecord& advice : on_gpu.advice) CHECK(advice.text.find("Give prep") == std::string::npos);

  // 26,000 samples/s: 20,000 of the GPU, and 12 cores for the others; the GPU takes two.
  model.rates.prep = 27000;
  model.rates.ingestion = 26000;
  model.prep_place = PrepPlace::split;
  model.gpu_share = model.prep_servers->best_share();
  const WhatIfResult split = answer(model, question);
  REQUIRE(split.found.front().value);
  CHECK(*split.found.front().value == 14);
}
