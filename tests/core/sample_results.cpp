#include "sample_results.hpp"

namespace dsanalyze::test {
namespace {

RateRecord rate(double samples_per_s) {
  return {samples_per_s, samples_per_s * 1000, {samples_per_s * 0.99, samples_per_s * 1.01}, 12, 1, "counted", {}};
}

RunRecord full_run() {
  RunRecord run;
  run.name = "full";
  run.samples_per_s = 1234.56789012345678;
  run.epoch_seconds = 10.1;
  run.seconds = 31.5;
  run.storage_bytes = 77;
  run.requested_bytes = 78;
  run.cache_hits = 1;
  run.cache_misses = 2;
  run.samples = 3;
  run.samples_failed = 1;
  run.failures = {{"the file is gone", 1, "a/b.jpg"}};
  run.first_batch_seconds = 0.25;
  run.stall_p50_seconds = 0.001;
  run.stall_p99_seconds = 0.1;
  run.prefetch_batches = 16;
  run.fetch_concurrency = 8;
  run.slot_bytes = 4096;
  run.prep_operators = {{"decode", 0.7}, {"resize", 0.3}};
  run.epochs = {{0, 11, 3, 77, 78, 0, 3, "3-aa"}, {1, 10, 3, std::nullopt, 40, 1, 2, "3-aa"}};
  run.timeline = {{0.1, 0.9, 1 << 20, 1e6, 0.35}};
  return run;
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
  result.host = {"a CPU", 1.5, 2, 2, 3, 4, "Linux 6", 2, "vda", "ext4", "block layer", "none"};
  result.settings = full_settings();
  result.dataset = {"/data", "folder", 100, 11'000, 110, "d1", true, 50, 5500};
  result.ingestion = rate(20'000);
  result.prep = rate(10'208);
  result.cache = rate(251'950);
  result.storage = rate(4698.5);
  result.fetch = rate(7156.6);
  result.fetch->cache_fraction = 0.35;
  result.prep_by_cores = {{1, 425, Interval{420, 430}}, {2, 850, std::nullopt}};
  result.distributions.sample_bytes = DistributionRecord{110, 50, {10, 100, 400}};
  result.distributions.prep_seconds = DistributionRecord{0.001, 2000, {0.0005, 0.0009, 0.004}};
  result.storage_by_request = {{4096, 16, 1e8}};
  result.order = OrderRecord{"shards", 77, 3, 0.9, 0.01, 0.002, 0.4};
  RunRecord short_run;
  short_run.name = "prep";
  result.runs = {short_run, full_run()};
  result.stalls = {{1, 0.2, {0.1, 0.3}}, {2, 0.3, {0.2, 0.4}}, {3, 0.5, {0.4, 0.6}}};
  result.bottleneck = {"io", "storage", true, "the lowest", "cpu"};
  result.observed = {999.5, 0.6};
  result.advice = {{"more-cache", "Cache more.", {"F 7,157", "P 10,208"}}};
  result.findings = {{"void-windows", Finding::Severity::info, "One window was void."}, {"not-cold", Finding::Severity::error, "Cached."}};
  result.trusted = true;
  return result;
}

WhatIfResult full_whatif() {
  WhatIfResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.source = "profile.json";
  result.model = "closed form, MinIO";
  result.rates = {20'000, 10'208, 251'950, 4698.5};
  result.base_cache_fraction = 0.35;
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
  changed.change = {0.5, 73'000'000, 48, 2.5, 2, 16, 1e9, 3};
  changed.ingestion = std::nullopt;
  changed.epoch_seconds = 0;
  changed.too_close = true;
  changed.speedup = 1.5;
  result.answers = {measured, changed};
  result.found = {{"cache", 0.55, "fraction of the dataset", "prep binds"}, {"cores", std::nullopt, "cores", "storage binds"}};
  result.advice = {{"more-cache", "Cache more.", {}}};
  result.findings = {{"not-minio", Finding::Severity::warning, "The cache was LRU."}};
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
  result.damaged_files = 0;
  result.files = 100;
  result.array = {"|u1", {224, 224, 3}};
  result.destination = "/shards";
  result.to = "tar";
  result.seconds = 1.5;
  result.findings = {{"skipped", Finding::Severity::info, "One file is no image."}};
  return result;
}

}  // namespace dsanalyze::test
