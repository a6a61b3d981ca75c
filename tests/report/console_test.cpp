#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "../base/texts.hpp"
#include "core/records/rate_text.hpp"
#include "golden.hpp"
#include "report/document/profile_text.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using testing::check_golden;
using testing::says;

namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    widest = std::max(widest, static_cast<std::size_t>(std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; })));
  return widest;
}

RateRecord rate(double value, double half, double bytes_per_s = 0) {
  RateRecord record;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {value - half, value + half};
  record.bytes_per_s = bytes_per_s;
  record.windows = 12;
  return record;
}

StallRecord stall(double fraction, double seconds) { return {seconds, fraction, {fraction - 0.01, fraction + 0.01}}; }

RunRecord run(const std::string& name, double samples_per_s, double epoch_seconds, Bytes storage_bytes, std::uint64_t hits, std::uint64_t misses) {
  RunRecord record;
  record.name = name;
  record.samples_per_s = samples_per_s;
  record.epoch_seconds = epoch_seconds;
  record.storage_bytes = storage_bytes;
  record.cache_hits = hits;
  record.cache_misses = misses;
  return record;
}

/// 10,000 samples of 110 kB on real storage, prep and accelerator, F lowest.
ProfileResult io_bound() {
  ProfileResult result;
  result.trusted = true;
  result.host.cpu_model = "Example CPU 2.0 GHz";
  result.host.cores = 8;
  result.host.memory_bytes = Bytes{16} << 30;
  result.host.storage_device = "vda";
  result.host.storage_filesystem = "ext4";
  result.dataset.path = "/data/train";
  result.dataset.samples = 10'000;
  result.dataset.bytes = 1'100'000'000;
  result.dataset.subset_samples = 4000;
  result.dataset.subset_bytes = 440'000'000;
  result.ingestion = rate(9800, 40);
  result.prep = rate(8200, 100);
  result.cache = rate(252'000, 900, 27.7e9);
  result.storage = rate(2100, 40, 231e6);
  result.fetch = rate(3207, 60);
  result.fetch->cache_fraction = 0.35;
  result.settings.accelerator = AcceleratorKind::emulated;
  result.settings.accelerators = 8;
  result.settings.accelerator_name = "emulated:1225";
  result.stalls = ProfileResult::Stalls{stall(0.33, 1.02), stall(0.06, 0.2), stall(0.61, 1.9)};
  result.bottleneck = BottleneckRecord{"io", "storage", true, "F is 2.6 times lower than P, the next, and the intervals do not overlap", "cpu"};
  result.advice = {
      {"add-cache",
       "Cache 75 % of the dataset (768 MiB) instead of 35 %: 3,207 ± 60 to 8,200 ± 100 samples/s (2.56x); then prep is the bottleneck [P].",
       {}},
      {"faster-storage", "Storage 2.56x as fast (591 MB/s): 3,207 ± 60 to 8,200 ± 100 samples/s (2.56x); then prep is the bottleneck [P].", {}}};
  result.runs = {run("synthetic", 9800, 1.02, 0, 0, 0), run("cached", 8150, 1.23, 0, 4000, 0), run("full", 3190, 3.13, 286'000'000, 1400, 2600)};
  return result;
}

ProfileResult emulated_io_bound() {
  ProfileResult result = io_bound();
  result.settings.storage = Seam::emulated;
  result.settings.storage_name = "emulated:ssd";
  result.settings.prep = Seam::emulated;
  result.settings.prep_rate_per_core = 425;
  result.runs.back().mlperf_storage_au = AcceleratorUtilisation{32.55, 3.05, 9.37, 48, 8, "AU = ..."};
  result.settings.scale = 1000;
  return result;
}

/// The same configuration with four jobs, of which one dies, in a search.
ProfileResult of_jobs() {
  ProfileResult result = emulated_io_bound();
  result.settings.jobs = 4;
  result.settings.share = JobSharing::coordinated;
  result.settings.trials = 5;
  result.settings.stop_at_epochs = 1;
  for (int number = 0; number < 4; ++number) {
    JobRecord& job = result.jobs.emplace_back();
    job.job = number;
    job.end = number == 2 ? JobEnd::died : JobEnd::finished;
    job.samples_per_s = 790.5 + number;
    job.ci95_samples_per_s = {job.samples_per_s - 9, job.samples_per_s + 9};
    job.epoch_seconds = number == 2 ? 0 : 5.06;
    job.stall_fraction = 0.614;
    job.samples = 12'000;
    job.samples_prepared = 3000;
    job.trial = number == 0 ? 4 : number;
  }
  result.sharing = SharingRecord{"coordinated", "jobs", 4, 12'004, 1.0003, 4, 12, 150'994'944, 152'043'520, 3, 0, 1, 0.000'014'2};
  result.trials = {{0, 0, 1, 5.5, "samples_per_s", 700, JobEnd::stopped}, {4, 0, 2, 10.25, "loss", 1.75, JobEnd::finished}};
  return result;
}

ProfileResult cpu_bound() {
  ProfileResult result = io_bound();
  result.settings.accelerator = AcceleratorKind::null;
  result.prep = rate(980, 12);
  result.prep->void_windows = 2;
  result.prep_by_cores = {{1, 490, std::nullopt}, {2, 980, std::nullopt}};
  for (const double request_bytes : {16'384.0, 65'536.0, 118'784.0, 262'144.0})
    for (const int concurrency : {1, 2, 4, 8, 16})
      result.storage_by_request.push_back({request_bytes, concurrency, 1e6 * concurrency * std::sqrt(request_bytes)});
  result.stalls = ProfileResult::Stalls{stall(0.1, 1.02), stall(0.9, 9.2), {0, 0, {0, 0}}};
  result.bottleneck = BottleneckRecord{"cpu", "prep", true, "P is 3.3 times lower than F, the next", "io"};
  result.advice = {{"add-cores", "Give prep 7 cores instead of 2: 980 ± 12 to 3,207 ± 60 samples/s (3.27x); then fetch is the bottleneck [F].", {}}};
  result.observed = ProfileResult::Observed{610, 0.38};
  return result;
}

ProfileResult gpu_bound() {
  ProfileResult result = io_bound();
  result.ingestion = rate(760, 3);
  result.stalls = ProfileResult::Stalls{stall(0.996, 13.1), {0.02, 0.002, {0, 0.004}}, {0.02, 0.002, {0, 0.004}}};
  result.bottleneck = BottleneckRecord{"gpu", "accelerator", true, "G is 4.2 times lower than F, the next", "io"};
  result.advice = {{"nothing-to-gain", "Nothing to gain on the data side: the accelerators are the bottleneck at 760 ± 3 samples/s [G].", {}}};
  return result;
}

ProfileResult no_accelerator() {
  ProfileResult result = io_bound();
  result.settings.accelerator = AcceleratorKind::none;
  result.ingestion.reset();
  result.stalls.reset();
  result.bottleneck = BottleneckRecord{"io", "storage", true, "F is lower than P", "cpu"};
  result.advice.clear();
  result.runs.erase(result.runs.begin());
  return result;
}

ProfileResult untrusted() {
  ProfileResult result = io_bound();
  result.trusted = false;
  result.runs[2].storage_bytes.reset();
  result.runs[2].samples_failed = 3;
  result.findings = {
      {"samples-failed", Finding::Severity::warning, "3 of 4,000 samples do not decode and were skipped, the first is a/b.jpg."},
      {"sizes-sampled", Finding::Severity::info, "Only 1,000 files were asked for their size."},
      {"storage-not-proved", Finding::Severity::error,
       "Nothing on this filesystem tells what reached the device, so whether the cold run was cold is not known: copy the dataset to a local disk."}};
  return result;
}

ProfileResult too_close() {
  ProfileResult result = io_bound();
  result.settings.accelerator = AcceleratorKind::null;
  result.prep = rate(3300, 100);
  result.bottleneck = BottleneckRecord{"io", "storage", false, "the intervals of F and P overlap", "cpu"};
  result.advice.clear();
  return result;
}

WhatIfResult what_if() {
  WhatIfResult result;
  result.source = "/data/profile.json";
  result.model = "closed form, MinIO: samples/s = min(F, P, G), F by Eq 4 [DS-Analyzer, App. C]";
  result.base_cache_fraction = 0.35;
  const auto add = [&](const WhatIfChange& change, double value, const std::string& binds, double speedup) -> WhatIfAnswer& {
    WhatIfAnswer& answer = result.answers.emplace_back();
    answer.change = change;
    answer.ingestion = 9800;
    answer.samples_per_s = value;
    answer.ci95_samples_per_s = {value * 0.98, value * 1.02};
    answer.epoch_seconds = 1'281'167 / value;
    answer.bottleneck = binds;
    answer.speedup = speedup;
    return answer;
  };
  add({}, 3207, "io", 1);
  WhatIfChange both;
  both.cache_fraction = 0.8;
  both.cache_bytes = Bytes{120} << 30;
  both.cores = 48;
  both.storage_bytes_per_s = 3e9;
  add(both, 9800, "gpu", 3.06);
  WhatIfChange cache;
  cache.cache_fraction = 0.75;
  add(cache, 8200, "cpu", 2.56).too_close = true;
  WhatIfChange slower;
  slower.storage_factor = 0.5;
  slower.accelerator_speed = 2;
  slower.cores_factor = 2;
  add(slower, 1600, "io", 0.5);
  result.found = {{"cache", 0.7481, "of the dataset", "768 MiB; prep is the bottleneck at 8,200 ± 100 samples/s [P]; more memory buys nothing"},
                  {"storage", std::nullopt, "bytes/s", "no storage removes the fetch stall: the 35 % from the cache come at only 900 samples/s [C]"}};
  result.advice = {{"add-cache", "Cache 75 % of the dataset instead of 35 %.", {"prep can supply 8,200 ± 100 samples/s [P]"}}};
  result.findings = {{"prep-extrapolated", Finding::Severity::warning, "P was measured on up to 24 cores; up to 48 it is extrapolated."}};
  return result;
}

SimulateResult simulation() {
  SimulateResult result;
  result.source = "configs/scenarios/two-jobs.json";
  result.name = "two-jobs";
  result.description = "two jobs read a small dataset, each in an order of its own";
  result.samples = 1000;
  result.dataset_bytes = 110'000'000;
  result.jobs = 2;
  result.accesses = 6000;
  result.orders = SimulatedOrders{"sequential", 128, 1, "own", 0.5, 1, 1, 7};
  const auto counted = [](ReplayPolicy policy, Bytes capacity, std::uint64_t hits) {
    CaseCounts counts;
    counts.cache = {policy, capacity, 0};
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      const std::uint64_t found = epoch == 0 ? hits / 10 : hits;
      counts.epochs.push_back({epoch, {2000, found, 220'000'000, (2000 - found) * 110'000}});
    }
    return counts;
  };
  result.cases = {counted(ReplayPolicy::none, 0, 0), counted(ReplayPolicy::minio, 38'500'000, 700),
                  counted(ReplayPolicy::page_model_linux, 38'500'000, 431), counted(ReplayPolicy::minio, 71'500'000, 1300)};
  CaseCounts one_epoch = counted(ReplayPolicy::belady, 71'500'000, 50);
  one_epoch.epochs.resize(1);
  result.cases.push_back(one_epoch);
  result.times.resize(result.cases.size());
  result.times[1] = PipelineTimes{7157.3, 179.02, 0.41, 0.0012, 0.0321, 0.1, 7157.3, 10'200, 20'960, 0.36, 0.3, "io", false};
  result.times[3] = PipelineTimes{10'180, 125.9, 0.41, 0.0012, 0.0101, 0.1, 10'333, 10'200, 20'960, 0.51, 0.01, "cpu", true};
  return result;
}

}  // namespace

TEST_CASE("a share and its uncertainty are shown to the same place, by two digits of the uncertainty and never beyond a hundredth of a percent") {
  const auto shown = [](double fraction, double half) {
    StallRecord stall;
    stall.fraction = fraction;
    stall.ci95_fraction = {fraction - half, fraction + half};
    return report::share_with_interval(stall);
  };
  CHECK(shown(0.59512, 0.00023) == "59.51 ± 0.02 %");
  CHECK(shown(0.59512, 0.013) == "59.5 ± 1.3 %");
  CHECK(shown(0.59512, 0.123) == "60 ± 12 %");
  CHECK(shown(0.59512, 0.000001) == "59.51 ± 0.01 %");
  CHECK(shown(-0.00001, 0.0002) == "0.00 ± 0.02 %");
  StallRecord lopsided;
  lopsided.fraction = 0;
  lopsided.ci95_fraction = {0, 0.167};
  CHECK(report::share_with_interval(lopsided) == "0.0 % (0.0 to 16.7 %)");
}

TEST_CASE("the console summary of each kind of profile is as its golden file") {
  check_golden("profile_emulated_io_bound", console_summary(emulated_io_bound(), {}));
  check_golden("profile_cpu_bound", console_summary(cpu_bound(), {}));
  check_golden("profile_gpu_bound", console_summary(gpu_bound(), {}));
  check_golden("profile_no_accelerator", console_summary(no_accelerator(), {}));
  check_golden("profile_untrusted", console_summary(untrusted(), {}));
  check_golden("profile_too_close", console_summary(too_close(), {}));
  check_golden("profile_jobs", console_summary(of_jobs(), {}));
}

TEST_CASE("what jobs shared is one sentence: prepared once for all, or by each for itself, with the memory and what went wrong") {
  SharingRecord sharing = *of_jobs().sharing;
  CHECK(report::sharing_text(sharing) ==
        "4 jobs took every batch from one preparation, to which each did its part: each sample was prepared once an epoch; at most 12 batches (144 "
        "MiB) "
        "staged, 145 MiB shared in all; handing a batch over cost 14.2 us; 1 job left before the end; the others made 3 batches of "
        "theirs");
  sharing.preparations_per_sample = 1.02;
  sharing.late_reports = 2;
  sharing.departures = sharing.taken_over_batches = 0;
  sharing.handover_seconds_per_batch.reset();
  sharing.producers = "coordinator";
  const std::string text = report::sharing_text(sharing);
  CHECK(says(text, "the coordinator's: each sample was prepared 1.02 times an epoch"));
  CHECK(says(text, "145 MiB shared in all; 2 reports of a late batch"));
  sharing.share = "none";
  sharing.jobs = 8;
  sharing.preparations_per_sample = 8;
  sharing.late_reports = 0;
  CHECK(report::sharing_text(sharing) ==
        "8 jobs, each for itself: each sample was prepared 8 times an epoch; at most 12 batches (144 MiB) in memory");
}

TEST_CASE("the console shows each job, and the first trials of a long search with how many there are") {
  ProfileResult result = of_jobs();
  CHECK_FALSE(says(console_summary(emulated_io_bound(), {}), "jobs"));
  result.trials.resize(40, result.trials.front());
  const std::string text = console_summary(result, {});
  CHECK(says(text, "32 of 40 trials"));
  CHECK(says(text, "died, trial 2"));
  CHECK(widest_line(text) <= 120);
  CHECK(widest_line(console_summary(result, {Colour::off, 40})) <= 40);
}

TEST_CASE("the table of a simulation is as its golden file, a scenario's and a trace's") {
  check_golden("simulate_scenario", console_summary(simulation(), {}));
  SimulateResult trace = simulation();
  trace.name.clear();
  trace.orders.reset();
  trace.times.clear();
  trace.jobs = 1;
  trace.source = "run.trace";
  trace.recorded = trace.cases[1];
  trace.findings = {{"trace-ends-in-epoch", Finding::Severity::info, "The trace ends within epoch 2, after 70 of 1000 accesses."}};
  check_golden("simulate_trace", console_summary(trace, {}));
}

TEST_CASE("the what-if table is as its golden file") { check_golden("whatif", console_summary(what_if(), {})); }

TEST_CASE("a verdict that rests on emulation begins with the word emulated, and one of real devices does not") {
  CHECK(console_summary(emulated_io_bound(), {}).starts_with("emulated"));
  CHECK_FALSE(console_summary(cpu_bound(), {}).starts_with("emulated"));
}

TEST_CASE("an untrusted measurement says so in its first line and a trusted one does not") {
  const std::string text = console_summary(untrusted(), {});
  CHECK(says(text.substr(0, text.find('\n')), "not to be trusted"));
  CHECK_FALSE(says(console_summary(io_bound(), {}), "not to be trusted"));
}

TEST_CASE("without G the summary asks for it and gives what the data side can feed") {
  const std::string text = console_summary(no_accelerator(), {});
  CHECK(says(text, "the data side can feed 3,207 ± 60"));
  CHECK(says(text, "--accelerator pytorch --workload NAME"));
}

TEST_CASE("a profile without P calls no run the bottleneck of the data side") {
  ProfileResult result = no_accelerator();
  result.prep.reset();
  const std::string text = console_summary(result, {});
  CHECK(says(text, "(prep was not measured)"));
  CHECK_FALSE(says(text, "as fetch is the bottleneck"));
}

TEST_CASE("what the rates do not explain is shown as interference, with both rates by their names, and a load of others beside the verdict") {
  ProfileResult busy = cpu_bound();
  CHECK_FALSE(says(console_summary(busy, {}), "interference"));
  busy.stalls->interference = stall(0.319, 3.2);
  busy.attained = ProfileResult::Attained{1198, {1180, 1216}, 1756, {1730, 1782}, {"reading costs 0.1 ms of CPU time a sample"}};
  RunRecord full;
  full.name = "full";
  full.shared_windows = 12;
  full.others = BackgroundLoad{0.31, {{1234, "stress-ng", 0.28}}};
  busy.runs.push_back(full);
  std::string text;
  std::istringstream words(console_summary(busy, {}));
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  CHECK(says(text, "0 % for fetch, and interference takes 31.9 %"));
  CHECK(says(text, "~ interference 31.9"));
  CHECK(says(text, "As measured, the full run reached 1,198 ± 18 samples/s; by the rates it would be 1,756 ± 26"));
  CHECK(says(text, "reading costs 0.1 ms of CPU time a sample"));
  CHECK(says(text, "beside other processes that take 31 % of the CPU"));
  busy.trusted = false;
  CHECK_FALSE(says(console_summary(busy, {}), "beside other processes"));
}

TEST_CASE("how well it is known what came from storage is told below the runs, where it was asked") {
  ProfileResult result = io_bound();
  CHECK_FALSE(says(console_summary(result, {}), "what came from storage"));
  result.runs[0].storage_proof = result.runs[2].storage_proof = StorageProof::proved;
  result.runs[1].storage_proof = StorageProof::unproved;
  CHECK(says(console_summary(result, {}), "  what came from storage is proved: synthetic, full; unproved: cached\n"));
}

TEST_CASE("lines stay within the terminal and have no colour codes unless asked for") {
  for (const auto& result : {emulated_io_bound(), cpu_bound(), gpu_bound(), no_accelerator(), untrusted(), too_close()})
    for (const int width : {40, 60, 72, 80, 100}) {
      CAPTURE(width);
      CHECK(widest_line(console_summary(result, {Colour::off, width})) <= static_cast<std::size_t>(width));
      CHECK_FALSE(says(console_summary(result, {Colour::off, width}), "\x1b["));
    }
  for (const int width : {40, 60, 72, 80}) CHECK(widest_line(console_summary(what_if(), {Colour::off, width})) <= static_cast<std::size_t>(width));
  CHECK(says(console_summary(io_bound(), {Colour::on, 80}), "\x1b[1m"));
}

TEST_CASE("a profile with nothing measured is still said in words") {
  const std::string text = console_summary(ProfileResult{}, {});
  CHECK(says(text, "was not measured"));
}

TEST_CASE("what a network learned is told in a line, and nothing is told of one that did not learn") {
  ProfileResult result = io_bound();
  CHECK_FALSE(says(console_summary(result, {}), "learned"));
  TrainingRecord training;
  training.by_epoch = {{0, 100, 2.302585}, {1, 100, 1.5}, {2, 40, 0.5}};
  result.runs.back().training = training;
  CHECK(says(console_summary(result, {}), "loss 2.3026 in the first epoch, 0.5 in the last of 3 (run full)"));
  result.runs.back().training->by_epoch.resize(1);
  CHECK(says(console_summary(result, {}), "loss 2.3026 in the only epoch (run full)"));
  result.settings.accelerator = AcceleratorKind::cpu;
  result.settings.accelerators = 2;
  result.settings.accelerator_precision = Precision::float64;
  CHECK(says(console_summary(result, {}), "the CPU trains, 2 threads, double"));
}

TEST_CASE("a rate is printed with its interval when one is known") {
  CHECK(format_rate(2100, {2060, 2140}) == "2,100 ± 40");
  CHECK(format_rate(2100, {2100, 2100}) == "2,100");
  CHECK(format_rate(2100, {2090, 2180}) == "2,100 (2,090 to 2,180)");
}
