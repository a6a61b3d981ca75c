#include <doctest/doctest.h>

#include <array>

#include "../base/texts.hpp"
#include "base/text/text.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using testing::says;

namespace {

RateRecord rate(double samples_per_s) {
  RateRecord record;
  record.samples_per_s = samples_per_s;
  record.ci95_samples_per_s = {samples_per_s * 0.99, samples_per_s * 1.01};
  record.windows = 8;
  return record;
}

/// A training that was launched and waits for prep half of the time.
ProfileResult launched() {
  ProfileResult result;
  result.command = {"python3", "train.py"};
  result.loader.emplace();
  result.loader->name = "torch.utils.data.DataLoader";
  result.loader->workers = 2;
  result.loader->prefetch = 2;
  result.loader->file = "train.py";
  result.loader->line = 8;
  result.ingestion = rate(3200);
  result.prep = rate(1600);
  result.prep_by_workers = {{2, 1600, {1590, 1610}, {}}, {4, 3000, {2990, 3010}, {}}};
  result.waits.emplace();
  result.waits->step_seconds = 0.02;
  result.waits->data = {0.01, 0.5};
  result.waits->compute = {0.01, 0.5};
  result.bottleneck = BottleneckRecord{"cpu", "prep", true, "1,600 [P] against 3,200 [G] samples/s; their 95 % intervals do not overlap", "gpu"};
  result.trusted = true;
  return result;
}

}  // namespace

TEST_CASE("the first line names the bottleneck of a launched training, and the loader is its own") {
  const std::string page = console_summary(launched(), {});
  CHECK(page.starts_with("BOTTLENECK: prep (CPU). The GPU waits 50 % of each step for a batch."));
  CHECK(says(page, "20 ms = 10 ms compute + 10 ms waiting (p99"));
  CHECK(says(page, "[P], 2 workers"));
  CHECK(says(page, "Try num_workers=4 instead of 2"));
  CHECK(says(page, "train.py:8"));
  CHECK_FALSE(says(page, "dsanalyze's own loader"));
}

TEST_CASE("a launched training whose record lacks a part has a summary, whatever its bottleneck") {
  for (const char* detail : {"prep", "accelerator", "delivery", "outside", "storage", "latency"})
    for (const int lacking : {0, 1, 2, 3}) {
      CAPTURE(detail);
      CAPTURE(lacking);
      ProfileResult result = launched();
      result.bottleneck->detail = detail;
      result.prep_by_workers.clear();
      if (lacking == 0) result.prep.reset();
      if (lacking == 1) result.waits.reset();
      if (lacking == 2) result.loader.reset();
      if (lacking == 3) result.ingestion.reset();
      CHECK_FALSE(console_summary(result, {}).empty());
    }
}

TEST_CASE("without P a launched training is referred to the findings only where P is what its first step is about") {
  const auto text_of = [](const char* detail, int workers = 2) {
    ProfileResult result = launched();
    result.loader->workers = workers;
    result.bottleneck->detail = detail;
    result.prep_by_workers.clear();
    result.prep.reset();
    return console_summary(result, {});
  };
  CHECK(says(text_of("prep"), "See the findings"));
  CHECK(says(text_of("prep", 0), "Give the DataLoader workers"));
  CHECK(says(text_of("storage"), "Keep the data in memory"));
  CHECK(says(text_of("outside"), "Shorten what the script does outside of its steps"));
  CHECK_FALSE(says(text_of("accelerator"), "See the findings"));
}

TEST_CASE("rates of samples that are rows of tokens are told in tokens a second, too") {
  ProfileResult result = launched();
  CHECK_FALSE(says(console_summary(result, {}), "tokens"));
  result.loader->tokens_per_sample = 1000;
  CHECK(says(console_summary(result, {}), "tokens/s"));
  CHECK(says(console_summary(result, {}), "1,000 tokens"));
}

TEST_CASE("batches that differ in size are told by their range, and equal ones by what the steps took") {
  ProfileResult result = launched();
  result.settings.batch_size = 32;
  CHECK(says(console_summary(result, {}), "[G], batch 32"));
  result.loader->samples_per_step = StepSamplesRecord{32, 120.5, 256};
  CHECK(says(console_summary(result, {}), "[G], batch 32-256 (120 on the"));
  result.loader->samples_per_step = StepSamplesRecord{64, 64, 64};
  CHECK(says(console_summary(result, {}), "[G], batch 64\n"));
}

TEST_CASE("a predicted fix stands with its place, what is next, and the command that checks it") {
  ProfileResult result = launched();
  FixRecord& fix = result.fix.emplace();
  fix.workers = 4;
  fix.samples_per_s = 3000;
  fix.ci95_samples_per_s = {2990, 3010};
  fix.speedup = 1.875;
  fix.next = "prep or GPU";
  fix.too_close = true;
  fix.check = "dsanalyze whatif --workers 4 --validate";
  fix.check_seconds = 120;
  const std::string page = console_summary(result, {});
  CHECK(says(page, "train.py:8 num_workers=4 (now 2): 3,000 ± 10 samples/s (1.9x)"));
  CHECK(says(page, "next: prep or GPU (inconclusive, intervals overlap)"));
  CHECK(says(page, "dsanalyze whatif --workers 4 --validate (about 2 min 00 s)"));
  CHECK_FALSE(says(page, "do first"));
  result.waits->delaying_rank = 1;
  result.waits->by_rank = {{0, {0, 0}, {0.01, 0.5}, {0.01, 0.5}, {0, 0}}, {1, {0.01, 0.5}, {0, 0}, {0.01, 0.5}, {0, 0}}};
  CHECK(says(console_summary(result, {}), "do first"));
}

TEST_CASE("a summary keeps to a narrow terminal, and no number is apart from its unit") {
  ProfileResult result = launched();
  result.host.cores = 16;
  result.loader->file = "/home/user/projects/training/experiments/train.py";
  result.loader->line = 1095;
  result.waits->between_epochs = BetweenEpochsRecord{3, 12, 2, 9, 1};
  result.waits->delaying_rank = 1;
  result.waits->by_rank = {{0, {0, 0}, {0.01, 0.5}, {0.01, 0.5}, {0, 0}}, {1, {0.01, 0.5}, {0, 0}, {0.01, 0.5}, {0, 0}}};
  for (const int width : {40, 48, 60, 80}) {
    const std::string page = console_summary(result, {Colour::off, width});
    for (std::size_t at = 0; at < page.size(); at = page.find('\n', at) + 1) {
      const std::string line = page.substr(at, page.find('\n', at) - at);
      CAPTURE(line);
      CHECK(display_width(line) <= static_cast<std::size_t>(width));
      const std::string text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      for (const char* const start : {"ms", "s ", "s)", "%", "± "}) CHECK_FALSE(text.starts_with(start));
      CHECK_FALSE(text.ends_with("±"));
    }
    CHECK(says(page, "1095"));
  }
}

TEST_CASE("a rank that delays the others is in the first line") {
  ProfileResult result = launched();
  result.waits->delaying_rank = 1;
  result.waits->by_rank = {{0, {0, 0}, {0.01, 0.5}, {0.01, 0.5}, {0, 0}}, {1, {0.01, 0.5}, {0, 0}, {0.01, 0.5}, {0, 0}}};
  CHECK(console_summary(result, {}).starts_with("BOTTLENECK: rank 1 of 2. Its loader delays every other rank."));
  result.waits->by_rank[1] = {1, {0, 0}, {0, 0}, {0.01, 0.5}, {0.01, 0.5}};
  CHECK(console_summary(result, {}).starts_with("BOTTLENECK: rank 1 of 2. What it does outside of its steps"));
  CHECK(says(console_summary(result, {}), "outside"));
}

TEST_CASE("of a rank that delays the others, its cores, what the others would take and their ranges are told") {
  ProfileResult result = launched();
  result.waits->step_seconds = 0.03;
  result.waits->delaying_rank = 5;
  for (int rank = 0; rank < 6; ++rank)
    result.waits->by_rank.push_back({rank, {0.001 * rank, 0.1}, {rank == 5 ? 0 : 0.015, 0.5}, {0.01, 0.4}, {0, 0}});
  result.waits->by_rank[5].data.seconds_per_step = 0.02;
  for (RankWaitsRecord& rank : result.waits->by_rank) rank.cores = 16;
  result.waits->by_rank[5].cores = 2;
  result.waits->by_rank[5].cpus = "14-15";
  const std::string page = console_summary(result, {Colour::off, 200});
  CHECK(says(page, "without this delay at best 14 ms (2.1x)"));
  CHECK(says(page, "Look at the cores of rank 5 first: it may use 2 (14-15), the others 16 (taskset"));
  CHECK(says(page, "others"));
  CHECK(says(page, "0 s to 4 ms"));
  // The others' loaders had the delay to prepare ahead in.
  for (RankWaitsRecord& rank : result.waits->by_rank) rank.supply_seconds_per_step = rank.rank == 5 ? 0.1 : 0.02;
  CHECK(says(console_summary(result, {Colour::off, 200}), "without this delay about 20 ms (1.5x)"));
  CHECK_FALSE(says(page, "\n   3 "));
  result.waits->by_rank[0].cores = 12;
  CHECK(says(console_summary(result, {Colour::off, 200}), "the others 12 or more"));
  for (const int few : {2, 0}) {  // As many as it, and not known.
    result.waits->by_rank[0].cores = few;
    CHECK(says(console_summary(result, {Colour::off, 200}), "Find out why the loader of rank 5 is slower"));
  }
}

TEST_CASE("a bottleneck other than prep and compute is named in the first line, with what to do first") {
  ProfileResult result = launched();
  result.prep_by_workers.clear();
  const auto page_of = [&](const char* resource, const char* detail) {
    result.bottleneck = BottleneckRecord{resource, detail, true, "", "gpu"};
    return console_summary(result, {});
  };
  CHECK(says(page_of("gpu", "outside"), "BOTTLENECK: outside the steps"));
  CHECK(says(page_of("gpu", "outside"), "Shorten what the script does"));
  CHECK(says(page_of("io", "latency"), "hardly use the CPU"));
  CHECK(says(page_of("io", "latency"), "Find out what the 2 workers wait for"));
  CHECK(says(page_of("cpu", "delivery"), "BOTTLENECK: taking batches over"));
}

TEST_CASE("what the loader reads is said by sample, and what is mapped into memory apart") {
  ProfileResult result = launched();
  CHECK_FALSE(says(console_summary(result, {}), "a sample in"));
  ReadsRecord& reads = result.reads.emplace();
  CHECK_FALSE(says(console_summary(result, {}), "  reads"));
  reads.files = 12'000;
  reads.requests = 13'200;
  reads.bytes_per_sample = 112 * 1024;
  reads.requests_per_sample = 1.1;
  CHECK(says(console_summary(result, {}), "reads     112 KiB a sample in 1.1 requests from 12,000 files"));
  reads.mapped_files = 1;
  reads.mapped_bytes = 1 << 30;
  CHECK(says(console_summary(result, {Colour::off, 100}), "; 1 file of 1 GiB is memory-mapped"));
  reads.requests = 0;
  CHECK(says(console_summary(result, {}), "reads     1 file of 1 GiB is memory-mapped"));
}

TEST_CASE("what lies between two epochs is said, where it was seen") {
  ProfileResult result = launched();
  CHECK_FALSE(says(console_summary(result, {}), "epochs:"));
  result.waits->between_epochs = BetweenEpochsRecord{3, 12, 2, 9, 1};
  CHECK(says(console_summary(result, {}), "epochs: 12 s each time, of which 9 s validation"));
}

TEST_CASE("a loader that is fast enough and is waited for all the same is no reason to do nothing") {
  ProfileResult result = launched();
  result.bottleneck = BottleneckRecord{"gpu", "accelerator", true, "4,000 [P] against 3,200 [G] samples/s", "cpu"};
  const auto first_step = [&] { return console_summary(result, {}); };
  CHECK(says(first_step(), "Make each batch cheaper to take"));
  result.waits->data = {0.0002, 0.01};
  CHECK(says(first_step(), "Nothing in the loader"));
}

TEST_CASE("workers that start in each epoch are kept, and where they are, an epoch is too short") {
  ProfileResult result = launched();
  result.bottleneck =
      BottleneckRecord{"cpu", "starting", true, "waiting for workers to start, between epochs, takes 60 % of the training's time", "gpu"};
  CHECK(says(console_summary(result, {}), "persistent_workers=True"));
  result.loader->persistent = true;
  CHECK(says(console_summary(result, {}), "Let an epoch be longer"));
}

TEST_CASE("what is not to be trusted is not called proved") {
  ProfileResult result = launched();
  RunRecord prep;
  prep.name = "prep";
  prep.storage_bytes = 4096;
  prep.storage_proof = StorageProof::proved;
  result.runs.push_back(prep);
  CHECK(says(console_summary(result, {}), "proved: 4 KiB were read"));
  result.trusted = false;
  const std::string page = console_summary(result, {});
  CHECK(says(page, "not to be trusted, see the findings"));
  CHECK_FALSE(says(page, "proved"));
}

TEST_CASE("a passive run says how long it waits, and how to learn more") {
  ProfileResult result = launched();
  result.ingestion.reset();
  result.prep.reset();
  result.prep_by_workers.clear();
  result.bottleneck.reset();
  const std::string page = console_summary(result, {});
  CHECK(page.starts_with("The GPU waits 50 % of each step for a batch."));
  CHECK(says(page, "without --passive"));
}

TEST_CASE("where a thread of the script fetches batches, the first line says nothing of its waits, and agrees with the finding") {
  ProfileResult result = launched();
  result.findings = {{"loader-in-thread", Finding::Severity::info, "The script fetches its batches in a thread of its own"}};
  result.waits.reset();
  RunRecord full;
  full.name = "full";
  full.samples_per_s = 1600;
  result.runs.push_back(full);
  CHECK(console_summary(result, {}).starts_with("BOTTLENECK: prep (CPU). By its rates, the GPU waits 50 % of the time."));
  result.prep_by_workers.clear();
  result.bottleneck->detail = "delivery";
  CHECK(says(console_summary(result, {}), "Fetch the batches without that thread"));
  result.bottleneck.reset();
  std::string page = console_summary(result, {});
  CHECK(says(page, "Not separable: the script fetches its batches in another thread"));
  CHECK(says(page, "Fetch the batches without that thread"));
  result.ingestion.reset();
  result.prep.reset();
  page = console_summary(result, {});
  CHECK(says(page, "Not separable: the script fetches its batches in another thread"));
  CHECK_FALSE(says(page, "each step"));
}

TEST_CASE("the page of a launched training shows the parts of a step and its loader, not the settings of a loader that did not run") {
  ReportInput input;
  input.label = "run";
  input.record = launched();
  const std::string page = markdown_report(std::array{input});
  CHECK(says(page, "Where a step's time goes"));
  CHECK(says(page, "P by the number of workers"));
  CHECK(says(page, "torch.utils.data.DataLoader"));
  CHECK_FALSE(says(page, "dsanalyze's own loader"));
  CHECK_FALSE(says(page, "every setting"));
}

TEST_CASE("G is said with the batch that it was measured with, where there is one size") {
  ProfileResult result = launched();
  result.settings.batch_size = 32;
  CHECK(says(console_summary(result, {}), "[G], batch 32"));
  result.settings.batch_size = 0;
  const std::string page = console_summary(result, {});
  CHECK(says(page, "[G]"));
  CHECK_FALSE(says(page, "[G],"));
  CHECK_FALSE(says(page, "batch 0"));
  ReportInput input;
  input.label = "run";
  input.record = result;
  CHECK_FALSE(says(markdown_report(std::array{input}), "batch 0"));
}

TEST_CASE("findings of a launched training are in its summary, warnings as such") {
  ProfileResult result = launched();
  result.trusted = false;
  result.findings = {{"several-trainings", Finding::Severity::warning, "the command ran more than one training"},
                     {"workers-repeat", Finding::Severity::warning, "Each worker delivers all samples"},
                     {"batch-mutated", Finding::Severity::info, "The script changes batches"}};
  const std::string page = console_summary(result, {});
  CHECK(says(page, "warning: the command ran more than one training"));
  CHECK(says(page, "warning: Each worker delivers all samples"));
  CHECK(says(page, "The script changes batches"));
  CHECK_FALSE(says(page, "warning: The script changes batches"));
  CHECK(says(page, "not to be trusted, see the findings"));
}
