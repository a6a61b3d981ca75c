#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../base/texts.hpp"
#include "answers.hpp"
#include "core/records/rate_text.hpp"
#include "models/whatif/whatif.hpp"

using namespace dsanalyze;
using testing::advice_for;
using testing::says;

namespace {

RateModel server_of(std::optional<double> ingestion, double prep, double storage, double cache_fraction = 0) {
  RateModel model;
  model.rates = {ingestion, prep, 100'000, storage};
  model.cache_fraction = cache_fraction;
  model.cores = 10;
  model.accelerators = 8;
  return model;
}

/// 100 kB samples, read one by one at 100 MB/s, and in pieces of 4 MB at `packed`.
RateModel with_curve(RateModel model, double packed) {
  model.request_bytes = 100'000;
  model.fetch_concurrency = 8;
  model.storage_curve.emplace(std::vector<StoragePoint>{{100'000, 8, 100e6}, {4'000'000, 8, packed}}, 8);
  return model;
}

const AdviceRecord* find_code(const std::vector<AdviceRecord>& advice, const std::string& code) {
  const auto found = std::ranges::find(advice, code, &AdviceRecord::code);
  return found == advice.end() ? nullptr : &*found;
}

bool advises(const RateModel& model, const std::string& code, std::vector<std::uint32_t> jobs = {}) {
  return find_code(advice_for(model, std::move(jobs)), code) != nullptr;
}

std::string text_of(const RateModel& model, const std::string& code, std::vector<std::uint32_t> jobs = {}) {
  const auto advice = advice_for(model, std::move(jobs));
  const AdviceRecord* one = find_code(advice, code);
  REQUIRE(one != nullptr);
  return one->text;
}

}  // namespace

TEST_CASE("what a larger cache buys ends with what would buy more: cores where prep is the bottleneck next") {
  const std::string text = text_of(server_of(20'000, 10'000, 5000), "add-cache");
  CHECK(says(text, "5,000 to 10,000 samples/s (2.00x); then prep is the bottleneck [P]: more memory buys nothing, 10 more cores would."));
  // Prep that feeds the accelerators just so leaves nothing for cores to do.
  CHECK(says(text_of(server_of(10'000, 10'000, 5000), "add-cache"), "more memory buys nothing."));
  CHECK(says(text_of(server_of(9000, 10'000, 5000), "add-cache"), "then the accelerators are the bottleneck [G]: more memory buys nothing."));
}

TEST_CASE("a single core is one core, and without their number cores are a factor") {
  RateModel model = server_of(11'000, 10'000, 5000);
  CHECK(says(text_of(model, "faster-storage"), "1 more core would."));
  model.cores = std::nullopt;
  CHECK(says(text_of(model, "faster-storage"), "1.10x the cores would."));
}

TEST_CASE("more cores are followed by cache and storage where fetch is the bottleneck next") {
  CHECK(says(text_of(server_of(20'000, 2000, 5000), "add-cores"), "more cores buy nothing, a larger cache or faster storage would."));
  CHECK(says(text_of(server_of(4000, 2000, 5000), "add-cores"), "then the accelerators are the bottleneck [G]: more cores buy nothing."));
}

TEST_CASE("an advice promises what the answer to the changed configuration says: its rate, its interval, what it cannot tell, its warnings") {
  RateModel model = server_of(20'000, 10'000, 5000);
  model.measured_cores_high = 10;
  model.ingestion_error = model.prep_error = 0.01;
  model.storage_error = 0.1;
  model.dataset_bytes = 100'000'000;
  const auto row_of = [&model](const WhatIfQuestion& question) {
    const WhatIfResult result = answer(model, question);
    return std::pair(format_rate(result.answers[1].samples_per_s, result.answers[1].ci95_samples_per_s), result.findings);
  };
  WhatIfQuestion cached;
  cached.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.527}};
  // F, which the larger cache lifts just above P, stays as unsure as S is.
  CHECK(says(text_of(model, "add-cache"), "Cache 52.7 % of the dataset (50.3 MiB) instead of 0 %"));
  CHECK(says(text_of(model, "add-cache"), "to " + row_of(cached).first + " samples/s"));
  CHECK(says(text_of(model, "add-cache"),
             "then prep [P] or fetch [F] is the bottleneck (inconclusive: their intervals overlap): more memory buys little"));

  model.rates = {9000, 1000, 100'000, 50'000};
  model.storage_error = 0.01;
  WhatIfQuestion cores;
  cores.cores = {{90.0, std::nullopt}};
  const auto [rate, findings] = row_of(cores);
  CHECK(says(text_of(model, "add-cores"), "Give prep 90 cores instead of 10"));
  CHECK(says(text_of(model, "add-cores"), "to " + rate + " samples/s (9.00x)"));
  for (const Finding& finding : findings)
    if (finding.code == "prep-extrapolated" || finding.code == "extrapolated-far") CHECK(says(text_of(model, "add-cores"), finding.message));
  CHECK(testing::has_code(findings, "extrapolated-far"));
}

TEST_CASE("shards are advised where larger reads bring more by the storage curve, and not where they hardly do") {
  const RateModel files = server_of(20'000, 3000, 1000);
  const std::string text = text_of(with_curve(files, 250e6), "pack-into-shards");
  CHECK(says(text, "in pieces of 3.81 MiB: 1,000 to 2,500 samples/s (2.50x); then fetch is the bottleneck [F]"));
  CHECK_FALSE(advises(with_curve(files, 104e6), "pack-into-shards"));
  CHECK(advises(with_curve(files, 106e6), "pack-into-shards"));
  CHECK_FALSE(advises(files, "pack-into-shards"));
  // Prep takes over at once.
  CHECK(says(text_of(with_curve(files, 900e6), "pack-into-shards"), "then prep is the bottleneck [P]"));
  CHECK_FALSE(advises(with_curve(server_of(20'000, 900, 1000), 900e6), "pack-into-shards"));
  // Within the intervals nothing is promised.
  RateModel unsure = with_curve(files, 112e6);
  CHECK(advises(unsure, "pack-into-shards"));
  unsure.storage_error = 0.1;
  CHECK_FALSE(advises(unsure, "pack-into-shards"));
}

TEST_CASE("jobs that fight for prep are advised to share it, and those that have enough are not") {
  RateModel model = server_of(1000, 4000, 50'000, 1);
  model.batch_size = 256;
  CHECK(says(text_of(model, "share-prep", {8}), "Let the 8 jobs share one sweep"));
  CHECK_FALSE(advises(model, "share-prep", {4}));
  CHECK(advises(model, "share-prep", {5}));
  CHECK_FALSE(advises(model, "share-prep"));
}

TEST_CASE("a loader that reaches less than the machine feeds is advised more workers first") {
  RateModel model = server_of(20'000, 10'000, 5000);
  model.observed = 2500;
  const auto advice = advice_for(model);
  CHECK(advice.front().code == "more-workers");
  CHECK(says(advice.front().text, "reaches 2,500 samples/s where this machine feeds 5,000 (2.00x)"));
  model.observed = 4800;
  CHECK_FALSE(advises(model, "more-workers"));
  model.observed = 4700;
  CHECK(advises(model, "more-workers"));
  model.storage_error = 0.05;
  CHECK_FALSE(advises(model, "more-workers"));
  model.observed = std::nullopt;
  CHECK_FALSE(advises(model, "more-workers"));
}

TEST_CASE("accelerators that do nothing are named, down to the last") {
  CHECK(
      says(text_of(server_of(8000, 2500, 50'000), "fewer-accelerators"), "3 of the 8 accelerators do the same work: they want 3,000 samples/s [G]"));
  CHECK(says(text_of(server_of(8000, 6990, 50'000), "fewer-accelerators"), "7 of the 8"));
  CHECK_FALSE(advises(server_of(8000, 7010, 50'000), "fewer-accelerators"));
  RateModel model = server_of(8000, 6950, 50'000);
  model.prep_error = 0.01;
  CHECK_FALSE(advises(model, "fewer-accelerators"));
  model.prep_error = 0.005;
  CHECK(advises(model, "fewer-accelerators"));
  model = server_of(8000, 100, 50'000);
  model.accelerators = 1;
  CHECK_FALSE(advises(model, "fewer-accelerators"));
}

TEST_CASE("where the bottleneck is inconclusive, that is the only advice") {
  RateModel model = server_of(20'000, 5000, 5300);
  model.prep_error = model.storage_error = 0.03;
  const auto advice = advice_for(model);
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].code == "too-close");
  CHECK(says(advice[0].text, "prep is the bottleneck at 5,000"));
  model.prep_error = model.storage_error = 0.028;
  CHECK_FALSE(advises(model, "too-close"));
}

TEST_CASE("accelerators that bind leave nothing to gain") {
  const auto advice = advice_for(server_of(1000, 5000, 6000));
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].code == "nothing-to-gain");
}

TEST_CASE("without G only measuring it is advised, beside more workers") {
  RateModel model = server_of(std::nullopt, 5000, 2000);
  model.observed = 500;
  const auto advice = advice_for(model);
  REQUIRE(advice.size() == 2);
  CHECK(advice[0].code == "more-workers");
  CHECK(advice[1].code == "measure-accelerator");
}

TEST_CASE("each advice has evidence and, but for too-close, a step for each of the three loaders") {
  RateModel observed = server_of(20'000, 10'000, 5000);
  observed.observed = 100;
  RateModel unsure = server_of(20'000, 5000, 5001);
  unsure.prep_error = unsure.storage_error = 0.03;
  RateModel sharing = server_of(1000, 4000, 50'000, 1);
  std::set<std::string> seen;
  for (const auto& [model, jobs] : std::vector<std::pair<RateModel, std::vector<std::uint32_t>>>{{with_curve(observed, 500e6), {}},
                                                                                                 {server_of(20'000, 2000, 5000), {}},
                                                                                                 {server_of(1000, 5000, 6000), {}},
                                                                                                 {server_of(std::nullopt, 5000, 6000), {}},
                                                                                                 {unsure, {}},
                                                                                                 {sharing, {8}}})
    for (const AdviceRecord& one : advice_for(model, jobs)) {
      CAPTURE(one.code);
      seen.insert(one.code);
      CHECK_FALSE(one.evidence.empty());
      if (one.code == "too-close") {
        CHECK(one.steps.empty());
        continue;
      }
      REQUIRE(one.steps.size() >= 2);
      CHECK(one.steps[0].loader == "PyTorch DataLoader");
      CHECK(one.steps[1].loader == "NVIDIA DALI");
      for (const LoaderStep& step : one.steps) CHECK(step.text.size() > 20);
    }
  CHECK(seen == std::set<std::string>{"more-workers", "add-cache", "faster-storage", "pack-into-shards", "fewer-accelerators", "add-cores",
                                      "nothing-to-gain", "measure-accelerator", "too-close", "share-prep"});
}
