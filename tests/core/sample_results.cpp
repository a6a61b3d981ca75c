#include "sample_results.hpp"

namespace dsanalyze::test {
namespace {

RateRecord rate(double samples_per_s) {
  return {samples_per_s, samples_per_s * 1000, {samples_per_s * 0.99, samples_per_s * 1.01}, 12, 1, "counted", {}};
}

RunRecord full_run() {
  RunRecord run;
  run.storage_proof = StorageProof::corroborated;
  run.shared_windows = 3;
  run.others = BackgroundLoad{0.31, {{1234, "stress-ng", 0.28}}};
  run.name = "full";
  run.samples_per_s = 1234.56789012345678;
  run.epoch_seconds = 10.1;
  run.seconds = 31.5;
  run.storage_bytes = 77;
  run.requested_bytes = 78;
  run.cache_hits = 1;
  run.cache_misses = 2;
  run.beyond_epochs = FetchedRecord{8, 1, 0};
  run.samples = 3;
  run.samples_failed = 1;
  run.failures = {{"the file is gone", 1, "a/b.jpg"}};
  run.first_batch_seconds = 0.25;
  run.stall_p50_seconds = 0.001;
  run.stall_p99_seconds = 0.1;
  run.prefetch_batches = 16;
  run.fetch_concurrency = 8;
  run.slot_bytes = 4096;
  run.prep_operators = {{"decode", 0.7, 0.0021}, {"resize", 0.3}};
  run.stall_seconds = DistributionRecord{0.002, 40, {0, 0.001, 0.1}};
  run.mlperf_storage_au = AcceleratorUtilisation{42.5, 8.5, 20, 40, 8, "AU = ..."};
  run.training = TrainingRecord{"double", 192, 64, 10, 13'002, 0.02, 0.9, 1500, {{0, 2.31}, {2, 2.2999999999999998}}, {{0, 3, 2.3}, {1, 2, 1.75}}};
  run.epochs = {{0, 11, 3, 77, 78, 0, 3, 0, 0, "3-aa"}, {1, 10, 3, std::nullopt, 40, 1, 2, 1, 110, "3-aa"}};
  run.timeline = {{0.1, 0.9, 1 << 20, 1e6, 0.35}};
  return run;
}

std::vector<JobRecord> full_jobs() {
  JobRecord finished;
  finished.job = 1;
  finished.end = JobEnd::finished;
  finished.samples_per_s = 617.25;
  finished.ci95_samples_per_s = {610, 620};
  finished.epoch_seconds = 10.2;
  finished.seconds = 31.25;
  finished.samples = 150;
  finished.samples_failed = 2;
  finished.samples_prepared = 76;
  finished.cache_hits = 50;
  finished.cache_misses = 26;
  finished.requested_bytes = 4000;
  finished.storage_bytes = 4096;
  finished.first_batch_seconds = 0.5;
  finished.stall_fraction = 0.125;
  finished.epochs = {{0, 11, 50, "50-aa", 25}, {1, 10, 50, "50-aa", 26, 14, 12, 4000, 4096}};
  finished.training = TrainingRecord{"float", 192, 64, 10, 13'002, 0.02, 0.9, 2, {{0, 2.31}}, {{0, 3, 2.3}}};
  finished.batch_copy_cpu_seconds = 0.0625;
  finished.trial = 7;
  JobRecord dead;
  dead.end = JobEnd::died;
  return {dead, finished};
}

ProfileSettings full_settings() {
  ProfileSettings settings;
  settings.dataset = "emulated:imagenet-1k";
  settings.workload = "resnet18";
  settings.preset = "config-ssd-v100";
  settings.scale = 1000;
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_name = "emulated:v100";
  settings.accelerator_rate = 2504;
  settings.accelerator_precision = Precision::float64;
  settings.accelerators = 8;
  settings.batch_size = 512;
  settings.step = StepMode::independent;
  settings.observed_rate = 999.5;
  settings.storage = Seam::emulated;
  settings.storage_name = "emulated:ssd";
  settings.storage_bytes_per_s = 530e6;
  settings.storage_latency_seconds = 0.0001;
  settings.storage_queue_depth = 31;
  settings.read_mode = ReadMode::direct;
  settings.fetch_concurrency = 15;
  settings.max_storage_bytes_per_s = 1e8;
  settings.prep = Seam::emulated;
  settings.prep_rate_per_core = 388;
  settings.workers = 23;
  settings.cores = 24;
  settings.dtype = DType::uint8;
  settings.layout = Layout::nhwc;
  settings.cache = CacheKind::lru;
  settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.35};
  settings.jobs = 4;
  settings.share = JobSharing::coordinated;
  settings.producers = Producers::coordinator;
  settings.batch_copy = BatchCopy::cpu;
  settings.trials = 9;
  settings.stop_at_epochs = 2;
  settings.world = 3;
  settings.partition = PartitionMode::locality;
  settings.balance_from = BalanceFrom::storage;
  settings.storage_scope = StorageScope::shared;
  settings.network = Seam::emulated;
  settings.network_bytes_per_s = 5e9;
  settings.runs = {"prep", "full"};
  settings.epochs = 4;
  settings.time_budget_seconds = 60;
  settings.subset = ByteAmount{ByteAmount::Kind::bytes, 1 << 30, 0};
  settings.io = IoEngine::uring;
  settings.admission = Admission::cost_aware;
  settings.memory_limit = ByteAmount{ByteAmount::Kind::fraction, 0, 0.5};
  settings.order = OrderKind::shards;
  settings.shuffle_buffer = 77;
  settings.readers = 3;
  settings.on_error = OnError::substitute;
  settings.error_budget = 0.01;
  settings.seed = 0xffff'ffff'ffff'fffe;
  return settings;
}

}  // namespace

ProfileResult least_profile() {
  ProfileResult result;
  result.tool = this_tool();
  result.prep = rate(735.1);
  return result;
}

ProfileResult full_profile() {
  ProfileResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.started_utc = "2026-11-20T21:05:33Z";
  result.host = {"a CPU", 1.5, 2, 2, 3, 4, "Linux 6", 2, "vda", "ext4", "block layer", "none", true, 4321.5};
  result.settings = full_settings();
  result.dataset = {"/data", "folder", 100, 11'000, 110, "d1", true, 50, 5500};
  result.ingestion = rate(20'000);
  result.prep = rate(10'208);
  result.cache = rate(251'950);
  result.storage = rate(4698.5);
  result.network = rate(45'454.5);
  result.fetch = rate(7156.6);
  result.fetch->cache_fraction = 0.35;
  result.prep_by_cores = {{1, 425, Interval{420, 430}}, {2, 850, std::nullopt}};
  result.distributions.sample_bytes = DistributionRecord{110, 50, {10, 100, 400}, 66.5};
  result.distributions.prep_seconds = DistributionRecord{0.001, 2000, {0.0005, 0.0009, 0.004}};
  result.storage_by_request = {{4096, 16, 1e8}};
  result.order = OrderRecord{"shards", 77, 3, 0.9, 0.01, 0.002, 0.4};
  RunRecord short_run;
  short_run.name = "prep";
  result.runs = {short_run, full_run()};
  result.jobs = full_jobs();
  result.sharing = SharingRecord{"coordinated", "coordinator", 2, 300, 1.02, 5, 9, 36'864, 99'000, 3, 4, 1, 0.000'014};
  result.trials = {{0, 1, 3, 30.5, "loss", 1.75, JobEnd::finished}, {1, 0, 1, 10.5, "samples_per_s", 99.5, JobEnd::stopped}};
  result.ranks = full_ranks();
  result.partition = full_partition();
  result.stalls = {{1, 0.2, {0.1, 0.3}}, {2, 0.3, {0.2, 0.4}}, {3, 0.5, {0.4, 0.6}}};
  result.stalls->interference = StallRecord{0.5, 0.1, {0.05, 0.15}};
  result.attained = ProfileResult::Attained{1198, {1180, 1216}, 1756, {1720, 1790}, {"reading costs 0.1 ms of CPU time a sample"}};
  result.bottleneck = {"io", "storage", true, "the lowest", "cpu"};
  result.observed = {999.5, 0.6};
  result.advice = {{"more-cache", "Cache more.", {"F 7,157", "P 10,208"}, {{"PyTorch DataLoader", "Keep the bytes."}}}};
  result.findings = {{"void-windows", Finding::Severity::info, "One window was void."}, {"not-cold", Finding::Severity::error, "Cached."}};
  result.trusted = true;
  return result;
}

ProfileResult dependent_profile() {
  ProfileResult result = full_profile();
  result.settings.share = JobSharing::dependent;
  result.settings.trials = 0;
  result.settings.stop_at_epochs.reset();
  result.settings.job_speeds = {1, 0.6, 0.45, 0.28};
  result.settings.staging_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.1};
  result.settings.staging_policy = StagingPolicy::lru;
  result.jobs[1].speed = 0.45;
  result.jobs[1].trial.reset();
  result.trials.clear();
  result.sharing->share = "dependent";
  result.sharing->dependent = ShareDependentRecord{90, 520, 300, 40, "lru", 10, 64, 7'400'000};
  result.sharing->fastest = FastestJobRecord{1, 150, 1.66, 2.53};
  return result;
}

SearchResult full_search() {
  SearchPoint point;
  point.setup = {1, PartitionMode::none, 24, "v100", 8, 0.35, 51'000'000'000, "gp3", 5e8};
  point.ingestion = 20'000;
  point.prep = 10'208;
  point.cache = 251'950;
  point.storage = 4698.5;
  point.fetch = 7157;
  point.samples_per_s = 7157;
  point.ci95_samples_per_s = {7000, 7300};
  point.epoch_seconds = 179;
  point.first_epoch_seconds = 273;
  point.bottleneck = "io";
  point.next = "cpu";
  point.next_samples_per_s = 10'208;
  point.too_close = true;
  point.costs_per_hour = {0.1, 0.8, 0.3, 19.8, 0.02, 0.01};
  point.cost_per_hour = 21.03;
  point.cost_per_epoch = 1.046;
  point.reach = Reach::conditionally;
  point.assumptions = {"a-disk gives 500 MB/s with 1 ms a request (the list assumes it)"};
  point.extrapolation = 4.5;
  point.simulated = SearchPoint::Simulated{7100, 180.5, 1.054};
  point.close_to_cheaper = true;
  SearchResult result;
  result.prices = "a-list";
  result.prices_path = "configs/prices/a-list.json";
  result.prices_date = "2024-01-31";
  result.prices_age_days = 1000;
  result.currency = "USD";
  result.setups = 9999;
  result.simulated = 1;
  result.target = SearchTarget{"3min", 7118, 180};
  result.reach = Reach::conditionally;
  result.cheapest = point;
  result.cheapest_hour = point;
  result.cheaper_maybe = point;
  result.fastest = point;
  result.front = {point};
  result.conclusions = {"Cheapest."};
  result.findings = {{"storage-from-list", Finding::Severity::info, "S follows from the list."}};
  return result;
}

WhatIfJobMix full_job_mix() {
  WhatIfJobMix mix;
  mix.path = "mix.json";
  mix.samples = 50'000;
  mix.prep = 10'208;
  mix.fetch = 7157;
  mix.jobs = {{"resnet18", 1375, 0, 50'000, 256, 20}, {"vgg", 412.5, 600, 25'000, 128, 3}};
  WhatIfJobMix::Answer dependent;
  dependent.share = "dependent";
  dependent.staging_fraction = 0.1;
  dependent.staging_policy = "refcnt";
  dependent.method = "simulated";
  dependent.scale = 1.25;
  dependent.jobs = {{1370, 729.9, 0.93}, {410, 182.9, 0.4}};
  dependent.prepared_per_sample = 0.89;
  dependent.prepared_per_fastest = 0.96;
  dependent.from_store_fraction = 0.04;
  dependent.mean_completion_seconds = 456.4;
  dependent.makespan_seconds = 782.9;
  WhatIfJobMix::Answer coordinated;
  coordinated.share = "coordinated";
  coordinated.not_predicted = "jobs that go in step need one batch size";
  mix.answers = {coordinated, dependent};
  return mix;
}

WhatIfResult full_whatif() {
  WhatIfResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.source = "profile.json";
  result.model = "closed form, MinIO";
  result.rates = {20'000, 10'208, 251'950, 4698.5};
  result.base_cache_fraction = 0.35;
  result.attained = ProfileResult::Attained{5'000, {4'900, 5'100}, 7'157, {7'000, 7'300}, {"no cause was seen"}};
  result.interference = 0.3;
  WhatIfAnswer measured;
  measured.ingestion = 20'000;
  measured.prep = 10'208;
  measured.fetch = 7157;
  measured.samples_per_s = 7157;
  measured.ci95_samples_per_s = {7000, 7300};
  measured.epoch_seconds = 179;
  measured.bottleneck = "io";
  measured.stalls = {0.36, 0.34, 0.3};
  WhatIfAnswer changed = measured;
  changed.change.cache_fraction = 0.5;
  changed.change.cache_bytes = 73'000'000;
  changed.change.cache = "lru";
  changed.change.cores = 48;
  changed.change.cores_factor = 2.5;
  changed.change.accelerator_speed = 2;
  changed.change.accelerators = 16;
  changed.change.storage_bytes_per_s = 1e9;
  changed.change.storage_factor = 3;
  changed.change.request_bytes = 1e6;
  changed.change.fetch_concurrency = 64;
  changed.change.batch_size = 128;
  changed.change.jobs = 8;
  changed.change.share = "coordinated";
  changed.change.servers = 2;
  changed.change.partition = "locality";
  changed.change.balance_from = "storage";
  changed.change.storage_scope = "shared";
  changed.change.network_bytes_per_s = 5e9;
  changed.jobs = WhatIfAnswer::Jobs{900, 0.65, 1, 18};
  changed.servers = WhatIfAnswer::Servers{4000, "network", 1e9, 2e9, 0.02};
  changed.simulated = WhatIfAnswer::Simulated{0.01, 0.2, 0.3, 1.5};
  changed.measured = WhatIfAnswer::Measured{7050, {7000, 7100}, 0.98, 0.007, 0.009, true, 12, 1, "io", true};
  measured.not_measured = "this process may use 2 cores";
  changed.ingestion = std::nullopt;
  changed.epoch_seconds = 0;
  changed.too_close = true;
  changed.speedup = 1.5;
  result.answers = {measured, changed};
  result.found = {{"cache", 0.55, "fraction of the dataset", "prep is the bottleneck"},
                  {"cores", std::nullopt, "cores", "storage is the bottleneck"}};
  result.advice = {{"more-cache", "Cache more.", {}, {{"WebDataset", "cache_dir=..."}}}};
  result.search = full_search();
  result.validation = WhatIfValidation{1, 1, 0.007, 0.007, 1, 0.08, 0.009, 0.98, 1.01, 1, "passed", "errors of 0.7 %"};
  result.job_mix = full_job_mix();
  result.findings = {{"not-minio", Finding::Severity::warning, "The cache was LRU."}};
  return result;
}

DoctorResult full_examination() {
  DoctorResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.cpu_model = "Made Up 9000";
  result.cores_usable = 1.5;
  result.cores_online = 8;
  result.memory_usable_bytes = Bytes{16} << 30;
  result.kernel = "6.1.0";
  result.container = "docker";
  result.dataset = "/data/a b";
  using enum DoctorStatus;
  using Where = DoctorCommand::Where;
  result.checks = {{"cpu-quota",
                    "cpu",
                    "CPU quota",
                    warning,
                    "the cgroup allows 1.5 cores of 8",
                    "Threads are stopped.",
                    "Raise it:",
                    {{Where::launch, "docker run --cpus=8 IMAGE"}}},
                   {"swap",
                    "memory",
                    "swap",
                    note,
                    "8 GiB on /dev/sda2",
                    "A hit may be read from disk.",
                    "Keep the cache in memory:",
                    {{Where::host, "sudo swapoff -a"}, {Where::here, "true"}}},
                   {"filesystem",
                    "storage",
                    "filesystem",
                    problem,
                    "/data/a b lies on tmpfs",
                    "No run is cold.",
                    "Copy it:",
                    {{Where::here, "cp -r '/data/a b' /LOCAL/DISK"}}},
                   {"cpu-frequency", "cpu", "frequency scaling", unknown, "the kernel shows none", "Rates differ.", "", {}},
                   {"clock-source", "machine", "clock", ok, "tsc", "Samples are timed.", "", {}},
                   {"numa", "memory", "NUMA nodes", ok, "one node", "Memory of another is slower.", "", {}}};
  return result;
}

DatasetCommandResult full_dataset_result() {
  DatasetCommandResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.command = "verify";
  result.path = "/data";
  result.format = "folder";
  result.samples = 100;
  result.bytes = 11'000;
  result.mean_sample_bytes = 110;
  result.digest = "d1";
  result.labels = 10;
  result.skipped = 1;
  result.already_there = 2;
  result.index_file = "/cache/x.dsidx";
  result.content_digest = "c1";
  result.failed = 1;
  result.failures = {{"a/\xff.jpg", "cut off"}};
  result.patched = 1;
  result.patched_samples = {{"a/b.jpg", "Corrupt JPEG data: bad Huffman code"}};
  result.damaged_files = 0;
  result.files = 100;
  result.array = {"|u1", {224, 224, 3}};
  result.destination = "/shards";
  result.to = "tar";
  result.seconds = 1.5;
  result.findings = {{"skipped", Finding::Severity::info, "One file is no image."}};
  return result;
}

GateResult full_gate() {
  GateResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.mode = "commands";
  result.verdict = GateVerdict::regression;
  result.reason = "P got worse";
  result.min_effect = 0.04;
  result.confidence = 0.97;
  result.unit = GateUnit::pair;
  result.baseline = {{"old profile"}, 6, 1, {"dsanalyze 1.2.2"}, 1234.5};
  result.current = {{"new profile"}, 7, 2, {"dsanalyze 1.2.3"}, 1235.5};
  result.ignored = {{"settings.workers", "2", "3"}};
  result.normalized = true;
  result.metrics = {{"P", GateScale::ratio, 2000, 1900, 6, 7, -0.05, Interval{-0.06, -0.04}, GateVerdict::regression, "5.0 % slower", std::nullopt},
                    {"prep-stall", GateScale::difference, 0.3, 0.31, 6, 7, 0.01, std::nullopt, GateVerdict::cannot_tell, "open", 12}};
  result.absent = {{"S", "was not measured"}};
  result.seconds = 33.5;
  result.findings = {{"normalized", Finding::Severity::info, "By the calibration."}};
  return result;
}

}  // namespace dsanalyze::test
