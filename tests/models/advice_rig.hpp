#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "models/whatif/training_advice.hpp"

/// Profiles of launched trainings as tests of advice make them up.
namespace dsanalyze::testing {

inline RateRecord rate(double value) {
  RateRecord record;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {0.98 * value, 1.02 * value};
  return record;
}

/// A training with 4 workers on 16 cores whose steps of 16 samples compute for 16 ms: prep supplies 400 samples/s of 1,000.
inline ProfileResult prep_bound() {
  ProfileResult profile;
  profile.command = {"python3", "train.py"};
  profile.host.cores = 16;
  profile.host.accelerator_shares_cores = true;
  profile.settings.accelerators = 1;
  profile.loader.emplace();
  profile.loader->workers = 4;
  profile.loader->persistent = true;
  profile.loader->pin_memory = true;
  profile.loader->file = "/job/train.py";
  profile.loader->line = 41;
  profile.prep = rate(400);
  profile.ingestion = rate(1000);
  RunRecord full;
  full.name = "full";
  full.samples_per_s = 400;
  full.ci95_samples_per_s = {395, 405};
  RunRecord synthetic = full;
  synthetic.name = "synthetic";
  synthetic.cores_used = 0.1;
  profile.runs = {full, synthetic};
  WaitsRecord waits;
  waits.step_seconds = 0.04;
  waits.compute.seconds_per_step = 0.016;
  waits.data.seconds_per_step = 0.024;
  profile.waits = waits;
  profile.prep_by_workers = {{1, 100, {98, 102}, 0.0001, 0.0002, 0.0098}, {4, 400, {395, 405}, 0.0001, 0.0002, 0.0098}};
  return profile;
}

/// Its steps wait for the accelerator.
inline ProfileResult accelerator_bound() {
  ProfileResult profile = prep_bound();
  profile.prep_by_workers = {{1, 900, {890, 910}, 0.0001, 0.0002, 0.001}, {4, 3600, {3500, 3700}, 0.0001, 0.0002, 0.001}};
  profile.prep = rate(3600);
  profile.ingestion = rate(400);
  profile.waits->compute.seconds_per_step = 0.04;
  profile.waits->data.seconds_per_step = 0;
  return profile;
}

/// Its 10 GiB of samples, each in a file of its own, are more than the page cache may hold.
inline ProfileResult storage_bound(Bytes page_cache) {
  ProfileResult profile = prep_bound();
  profile.prep = rate(4000);
  profile.prep_by_workers = {{1, 1000, {980, 1020}, 0.00001, 0.00001, 0.0009}, {4, 4000, {3950, 4050}, 0.00001, 0.00001, 0.0009}};
  profile.storage = rate(200);
  profile.storage_by_request = {{1e5, 1, 2e7}, {1e5, 4, 2e7}};
  ReadsRecord& reads = profile.reads.emplace();
  reads.samples = reads.opens = reads.files = 1000;
  reads.bytes_per_sample = 1e5;
  reads.dataset_bytes = Bytes{10} << 30;
  reads.page_cache_bytes = page_cache;
  profile.bottleneck = BottleneckRecord{"io", "storage", true, "", "cpu"};
  profile.runs[0].samples_per_s = 210;
  profile.runs[0].ci95_samples_per_s = {205, 215};
  return profile;
}

inline std::vector<AdviceRecord> advice_on(const ProfileResult& profile) { return advise(profile, training_model(profile)); }

inline const AdviceRecord* find(const std::vector<AdviceRecord>& list, const std::string& code) {
  const auto found = std::ranges::find(list, code, &AdviceRecord::code);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace dsanalyze::testing
