#include "core/records/settings.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "../../base/numbers.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"

using namespace dsanalyze;
using testing::infinite;

namespace {

ProfileSettings valid_settings() {
  ProfileSettings settings;
  settings.dataset = "photos";
  settings.runs = {"prep", "fetch", "full"};
  return settings;
}

ProfileSettings coordinated_settings() {
  ProfileSettings settings = valid_settings();
  settings.jobs = 8;
  settings.share = JobSharing::coordinated;
  return settings;
}

ProfileSettings dependent_settings() {
  ProfileSettings settings = valid_settings();
  settings.jobs = 3;
  settings.share = JobSharing::dependent;
  settings.producers = Producers::coordinator;
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_rate = 2000;
  settings.job_speeds = {1, 0.6, 0.45};
  settings.staging_size = ByteAmount{ByteAmount::Kind::fraction, 0, 0.1};
  settings.staging_policy = StagingPolicy::lru;
  return settings;
}

ProfileSettings settings_of_ranks() {
  ProfileSettings settings = valid_settings();
  settings.world = 4;
  settings.partition = PartitionMode::partitioned;
  return settings;
}

bool is_of_jobs(const ModeRule& rule) {
  for (const char* option :
       {"--share", "--jobs", "--job-speeds", "--staging-size", "--staging-policy", "--producers", "--batch-copy", "--trials", "--stop-at"})
    if (rule.mode.starts_with(option)) return true;
  return false;
}

bool is_of_ranks(const ModeRule& rule) {
  for (const char* option : {"--world", "--partition", "--balance-from", "--network", "--storage-scope"})
    if (rule.mode.starts_with(option)) return true;
  return false;
}

struct Mistake {
  std::string option;
  std::function<void(ProfileSettings&)> make;
};

}  // namespace

TEST_CASE("the defaults with a dataset and runs are valid") { CHECK_NOTHROW(valid_settings().validate()); }

TEST_CASE("a cache larger than the dataset is valid") {
  ProfileSettings settings = valid_settings();
  settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 2.5};
  CHECK_NOTHROW(settings.validate());
  settings.cache_size = ByteAmount{ByteAmount::Kind::bytes, 0, 0};
  CHECK_NOTHROW(settings.validate());
}

TEST_CASE("zero and absurd numbers are refused by the name of their option") {
  const double nan = std::nan("");
  const std::vector<Mistake> mistakes = {
      {"DATASET", [](ProfileSettings& s) { s.dataset.clear(); }},
      {"--batch-size", [](ProfileSettings& s) { s.batch_size = 0; }},
      {"--batch-size", [](ProfileSettings& s) { s.batch_size = 1'000'000; }},
      {"--accelerators", [](ProfileSettings& s) { s.accelerators = 0; }},
      {"--accelerators", [](ProfileSettings& s) { s.accelerators = -8; }},
      {"--accelerator", [](ProfileSettings& s) { s.accelerator = AcceleratorKind::emulated; }},
      {"--accelerator", [](ProfileSettings& s) { s.accelerator = AcceleratorKind::emulated, s.accelerator_rate = infinite; }},
      {"--observed", [](ProfileSettings& s) { s.observed_rate = 0; }},
      {"--storage", [](ProfileSettings& s) { s.storage = Seam::emulated; }},
      {"--storage", [](ProfileSettings& s) { s.storage = Seam::emulated, s.storage_bytes_per_s = 1e8, s.storage_queue_depth = 0; }},
      {"--storage", [=](ProfileSettings& s) { s.storage = Seam::emulated, s.storage_bytes_per_s = 1e8, s.storage_latency_seconds = nan; }},
      {"--io-depth", [](ProfileSettings& s) { s.fetch_concurrency = 0; }},
      {"--max-storage-rate", [](ProfileSettings& s) { s.max_storage_bytes_per_s = -1; }},
      {"--prep", [](ProfileSettings& s) { s.prep = Seam::emulated; }},
      {"--workers", [](ProfileSettings& s) { s.workers = -1; }},
      {"--cores", [](ProfileSettings& s) { s.cores = 1'000'000; }},
      {"--scale", [](ProfileSettings& s) { s.scale = 0; }},
      {"--scale", [=](ProfileSettings& s) { s.scale = nan; }},
      {"--cache-size",
       [](ProfileSettings& s) {
         s.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, -0.1};
       }},
      {"--subset",
       [](ProfileSettings& s) {
         s.subset = ByteAmount{ByteAmount::Kind::fraction, 0, 1.5};
       }},
      {"--subset",
       [](ProfileSettings& s) {
         s.subset = ByteAmount{ByteAmount::Kind::bytes, 0, 0};
       }},
      {"--epochs", [](ProfileSettings& s) { s.epochs = 1; }},
      {"--time-budget", [](ProfileSettings& s) { s.time_budget_seconds = 0; }},
      {"--time-budget", [](ProfileSettings& s) { s.time_budget_seconds = infinite; }},
      {"--error-budget", [](ProfileSettings& s) { s.error_budget = 1.1; }},
      {"--jobs", [](ProfileSettings& s) { s.jobs = 0; }},
      {"--jobs", [](ProfileSettings& s) { s.jobs = 65; }},
      {"--share", [](ProfileSettings& s) { s.share = JobSharing::unified_producer; }},
      {"--trials", [](ProfileSettings& s) { s.trials = -1; }},
      {"--stop-at", [](ProfileSettings& s) { s.stop_at_epochs = 0; }},
      {"--world", [](ProfileSettings& s) { s.world = 0; }},
      {"--world", [](ProfileSettings& s) { s.world = 4097; }},
      {"--network", [](ProfileSettings& s) { s.world = 2, s.partition = PartitionMode::partitioned, s.network = Seam::null; }},
      {"--network", [](ProfileSettings& s) { s.world = 2, s.partition = PartitionMode::partitioned, s.network = Seam::emulated; }},
      {"--network",
       [](ProfileSettings& s) { s.world = 2, s.partition = PartitionMode::locality, s.network = Seam::emulated, s.network_bytes_per_s = infinite; }},
      {"--runs", [](ProfileSettings& s) { s.runs = {}; }},
      {"--runs", [](ProfileSettings& s) { s.runs = {"warm"}; }},
      {"--runs",
       [](ProfileSettings& s) {
         s.runs = {"full", "prep"};
       }},
      {"--runs",
       [](ProfileSettings& s) {
         s.runs = {"prep", "prep"};
       }},
  };
  for (const Mistake& mistake : mistakes) {
    ProfileSettings settings = valid_settings();
    mistake.make(settings);
    CAPTURE(mistake.option);
    try {
      settings.validate();
      FAIL_CHECK("not refused");
    } catch (const UsageError& error) {
      CHECK(std::string(error.what()).starts_with(mistake.option));
    }
  }
}

TEST_CASE("the page cache is refused with what it cannot serve, and the message says what to use") {
  ProfileSettings direct = valid_settings();
  direct.cache = CacheKind::page;
  CHECK_NOTHROW(direct.validate());
  direct.read_mode = ReadMode::direct;
  CHECK_THROWS_WITH_AS(direct.validate(), doctest::Contains("--cache page does not go together with --direct"), UsageError);

  ProfileSettings emulated = valid_settings();
  emulated.storage = Seam::emulated;
  emulated.storage_bytes_per_s = 530e6;
  CHECK_NOTHROW(emulated.validate());
  emulated.cache = CacheKind::page;
  CHECK_THROWS_WITH_AS(emulated.validate(), doctest::Contains("use --cache none, minio or lru"), UsageError);

  ProfileSettings null = valid_settings();
  null.storage = Seam::null;
  null.cache = CacheKind::page;
  CHECK_THROWS_WITH_AS(null.validate(), doctest::Contains("--storage null"), UsageError);
}

TEST_CASE("every mode rule gives a reason, and each is broken by some settings") {
  std::vector<ProfileSettings> all;
  for (const CacheKind cache :
       {CacheKind::none, CacheKind::page, CacheKind::minio, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux}) {
    for (const Seam storage : {Seam::real, Seam::null, Seam::emulated}) {
      ProfileSettings settings = valid_settings();
      settings.cache = cache;
      settings.storage = storage;
      all.push_back(settings);
      settings.read_mode = ReadMode::direct;
      all.push_back(settings);
      settings.read_mode = ReadMode::buffered;
      settings.admission = Admission::cost_aware;
      all.push_back(settings);
      settings.admission = Admission::first;
      settings.memory_limit = ByteAmount{ByteAmount::Kind::fraction, 0, 0.5};
      all.push_back(settings);
    }
  }
  std::vector<ProfileSettings> on_cpu(4, valid_settings());
  for (ProfileSettings& settings : on_cpu) settings.accelerator = AcceleratorKind::cpu;
  CHECK_FALSE(broken_mode_rule(on_cpu.front()).has_value());
  on_cpu[0].prep = Seam::emulated;
  on_cpu[1].prep = Seam::null;
  on_cpu[2].storage = Seam::null;
  on_cpu[3].step = StepMode::independent;
  ProfileSettings ranks_by_pytorch = valid_settings();
  ranks_by_pytorch.accelerator = AcceleratorKind::pytorch;
  CHECK_FALSE(broken_mode_rule(ranks_by_pytorch).has_value());
  ranks_by_pytorch.world = 2;
  ProfileSettings by_gpus = valid_settings();
  by_gpus.accelerator = AcceleratorKind::cuda;
  by_gpus.accelerator_rate = 1000;
  by_gpus.prep = Seam::real;
  by_gpus.mesh = "2x2";
  by_gpus.input_sharding = "batch";
  CHECK_FALSE(broken_mode_rule(by_gpus).has_value());
  std::vector<ProfileSettings> wrong_gpus(4, by_gpus);
  wrong_gpus[0].jobs = 2;
  wrong_gpus[1].prep = Seam::null;
  wrong_gpus[2].accelerator = AcceleratorKind::emulated;
  wrong_gpus[3].mesh.clear();
  for (const ModeRule& rule : mode_rules()) {
    CHECK_FALSE(rule.reason.empty());
    if (is_of_jobs(rule) || is_of_ranks(rule)) continue;
    if (rule.mode == "--accelerator cpu") {
      CHECK(std::ranges::count_if(on_cpu, rule.applies) == 1);
      continue;
    }
    if (rule.mode == "--accelerator cuda" || rule.mode == "--mesh" || rule.mode == "--input-sharding") {
      CHECK(std::ranges::count_if(wrong_gpus, rule.applies) == 1);
      continue;
    }
    if (rule.mode == "--prep gpu or split") {
      std::vector<ProfileSettings> wrong_prep(3, by_gpus);
      for (ProfileSettings& each : wrong_prep) each.prep_place = PrepPlace::split;
      for (const int of_one_gpu : {0, 2}) wrong_prep[static_cast<std::size_t>(of_one_gpu)].mesh.clear();
      CHECK(std::ranges::none_of(std::span(wrong_prep).first(1), rule.applies));
      wrong_prep[2].accelerator = AcceleratorKind::emulated;
      CHECK(std::ranges::count_if(wrong_prep, rule.applies) == 1);
      continue;
    }
    if (rule.mode == "--prep split:SHARE") {
      ProfileSettings of_few = by_gpus;
      of_few.prep_place = PrepPlace::split;
      of_few.gpu_share = 0.3;
      CHECK_FALSE(rule.applies(of_few));
      of_few.batch_size = 1;
      CHECK(rule.applies(of_few));
      of_few.gpu_share = 0;  // The profile chooses it.
      CHECK_FALSE(rule.applies(of_few));
      continue;
    }
    if (rule.mode == "--accelerator pytorch") {
      CHECK(rule.applies(ranks_by_pytorch));
      continue;
    }
    CHECK(std::any_of(all.begin(), all.end(), [&rule](const ProfileSettings& settings) { return rule.applies(settings); }));
  }
  for (const ProfileSettings& settings : all) {
    const bool page = settings.cache == CacheKind::page && (settings.read_mode == ReadMode::direct || settings.storage != Seam::real);
    const bool model =
        (settings.cache == CacheKind::page_model_random || settings.cache == CacheKind::page_model_linux) && settings.storage != Seam::emulated;
    const bool admission = settings.admission == Admission::cost_aware && (settings.cache != CacheKind::minio || settings.storage == Seam::null);
    const bool refused = page || model || admission || (settings.memory_limit.has_value() && settings.cache != CacheKind::page);
    CHECK(broken_mode_rule(settings).has_value() == refused);
  }
}

/// Each mistake in settings that are right is refused by one rule, and every rule that `is_its` is broken by one of them.
void check_refused(const ProfileSettings& right, const std::vector<Mistake>& mistakes, bool (*is_its)(const ModeRule&)) {
  std::vector<ProfileSettings> broken;
  for (const Mistake& mistake : mistakes) {
    ProfileSettings settings = right;
    mistake.make(settings);
    CAPTURE(mistake.option);
    CHECK_THROWS_WITH_AS(settings.validate(), doctest::Contains(mistake.option.c_str()), UsageError);
    CHECK(std::ranges::count_if(mode_rules(), [&settings](const ModeRule& rule) { return rule.applies(settings); }) == 1);
    broken.push_back(settings);
  }
  for (const ModeRule& rule : mode_rules()) {
    CAPTURE(rule.refused_with);
    if (is_its(rule)) CHECK(std::ranges::any_of(broken, rule.applies));
  }
}

TEST_CASE("jobs go with and without sharing, one of them alone too, and with a search") {
  ProfileSettings settings = coordinated_settings();
  CHECK_NOTHROW(settings.validate());
  settings.producers = Producers::coordinator;
  for (const CacheKind cache : {CacheKind::none, CacheKind::minio, CacheKind::lru}) {
    settings.cache = cache;
    CHECK_NOTHROW(settings.validate());
  }
  settings.jobs = 1;
  CHECK_NOTHROW(settings.validate());
  settings = coordinated_settings();
  settings.share = JobSharing::none;
  settings.step = StepMode::independent;
  settings.cache = CacheKind::lru;
  CHECK_NOTHROW(settings.validate());
  settings.trials = 8;
  CHECK_NOTHROW(settings.validate());
  settings.stop_at_epochs = settings.epochs - 1;
  CHECK_NOTHROW(settings.validate());
}

TEST_CASE("jobs that draw dependently go with every cache, each with its speed, and alone") {
  ProfileSettings settings = dependent_settings();
  for (const CacheKind cache : {CacheKind::none, CacheKind::page, CacheKind::minio, CacheKind::lru}) {
    settings.cache = cache;
    CHECK_NOTHROW(settings.validate());
  }
  CHECK(speed_of_job(settings, 1) == 0.6);
  CHECK(sum_of_job_speeds(settings) == doctest::Approx(2.05));
  settings = settings_from_json(to_json(settings), "a test");
  CHECK(settings.job_speeds == std::vector<double>{1, 0.6, 0.45});
  CHECK(settings.staging_policy == StagingPolicy::lru);
  settings.job_speeds.clear();
  settings.staging_size.reset();
  settings.staging_policy.reset();
  CHECK(speed_of_job(settings, 2) == 1);
  CHECK(sum_of_job_speeds(settings) == 3);
  settings.accelerator = AcceleratorKind::null;
  settings.batch_copy = BatchCopy::cpu;
  settings.jobs = 1;
  CHECK_NOTHROW(settings.validate());
  for (const double speed : {0.0, -1.0, 1e-4, 1001.0, std::nan("")}) {
    settings = dependent_settings();
    settings.job_speeds[1] = speed;
    CHECK_THROWS_WITH_AS(settings.validate(), doctest::Contains("--job-speeds"), UsageError);
  }
  settings = dependent_settings();
  settings.staging_size->fraction = 1.5;
  CHECK_THROWS_WITH_AS(settings.validate(), doctest::Contains("--staging-size"), UsageError);
}

TEST_CASE("what jobs that draw dependently cannot do is refused with the reason, each by one rule") {
  const std::vector<Mistake> mistakes = {
      {"--producers jobs", [](ProfileSettings& s) { s.producers = Producers::jobs; }},
      {"--order sequential or shards", [](ProfileSettings& s) { s.order = OrderKind::sequential; }},
      {"--order sequential or shards", [](ProfileSettings& s) { s.order = OrderKind::shards; }},
      {"--step independent", [](ProfileSettings& s) { s.step = StepMode::independent; }},
      {"--share dependent does not go together with --trials", [](ProfileSettings& s) { s.trials = 4; }},
      {"--job-speeds does not go together with --share none or coordinated",
       [](ProfileSettings& s) { s.share = JobSharing::coordinated, s.staging_size.reset(), s.staging_policy.reset(); }},
      {"any --accelerator but emulated", [](ProfileSettings& s) { s.accelerator = AcceleratorKind::null; }},
      {"any --accelerator but emulated", [](ProfileSettings& s) { s.accelerator = AcceleratorKind::cpu; }},
      {"another number of --jobs", [](ProfileSettings& s) { s.jobs = 4; }},
      {"--staging-size does not go together with --share none or coordinated",
       [](ProfileSettings& s) { s.share = JobSharing::none, s.producers = Producers::jobs, s.job_speeds.clear(); }},
      {"--staging-policy does not go together with no --staging-size", [](ProfileSettings& s) { s.staging_size.reset(); }},
      {"--runs without full",
       [](ProfileSettings& s) {
         s.runs = {"prep", "fetch"};
       }},
  };
  check_refused(dependent_settings(), mistakes, [](const ModeRule& rule) {
    return rule.mode == "--share dependent" || rule.mode == "--job-speeds" || rule.mode.starts_with("--staging");
  });
}

TEST_CASE("what several jobs cannot do is refused with the reason, each by one rule, and every rule of jobs is broken by some settings") {
  const std::vector<Mistake> mistakes = {
      {"--producers coordinator", [](ProfileSettings& s) { s.producers = Producers::coordinator, s.share = JobSharing::none; }},
      {"--cache lru or page-model", [](ProfileSettings& s) { s.cache = CacheKind::lru; }},
      {"--cache lru or page-model",
       [](ProfileSettings& s) { s.cache = CacheKind::page_model_linux, s.storage = Seam::emulated, s.storage_bytes_per_s = 530e6; }},
      {"--order sequential or shards", [](ProfileSettings& s) { s.order = OrderKind::sequential; }},
      {"--order sequential or shards", [](ProfileSettings& s) { s.order = OrderKind::shards; }},
      {"--step independent", [](ProfileSettings& s) { s.step = StepMode::independent; }},
      {"--runs without full",
       [](ProfileSettings& s) {
         s.runs = {"prep", "fetch"};
       }},
      {"--runs without full", [](ProfileSettings& s) { s.jobs = 1, s.runs = {"prep"}; }},
      {"one job that shares nothing", [](ProfileSettings& s) { s.jobs = 1, s.share = JobSharing::none, s.batch_copy = BatchCopy::cpu; }},
      {"--trials does not go together with one job", [](ProfileSettings& s) { s.jobs = 1, s.trials = 4; }},
      {"more --jobs than trials", [](ProfileSettings& s) { s.trials = 7; }},
      {"no --trials", [](ProfileSettings& s) { s.stop_at_epochs = 1; }},
      {"no more --epochs", [](ProfileSettings& s) { s.trials = 16, s.stop_at_epochs = s.epochs; }},
  };
  check_refused(coordinated_settings(), mistakes, [](const ModeRule& rule) {
    return is_of_jobs(rule) && rule.mode != "--share dependent" && rule.mode != "--job-speeds" && !rule.mode.starts_with("--staging");
  });
}

TEST_CASE("ranks go with and without parts of the dataset, a partition of one too") {
  ProfileSettings settings = settings_of_ranks();
  CHECK_NOTHROW(settings.validate());
  settings.world = 4096;
  CHECK_NOTHROW(settings.validate());
  settings.world = 1;
  CHECK_NOTHROW(settings.validate());
  settings = settings_of_ranks();
  settings.partition = PartitionMode::locality;
  settings.balance_from = BalanceFrom::storage;
  settings.storage_scope = StorageScope::shared;
  settings.network = Seam::emulated;
  settings.network_bytes_per_s = 5e9;
  CHECK_NOTHROW(settings.validate());
  settings = settings_of_ranks();
  settings.partition = PartitionMode::none;
  for (const CacheKind cache : {CacheKind::none, CacheKind::page, CacheKind::minio, CacheKind::lru}) {
    settings.cache = cache;
    CHECK_NOTHROW(settings.validate());
  }
}

TEST_CASE("what ranks cannot do is refused with the reason, each by one rule, and every rule of ranks is broken by some settings") {
  const std::vector<Mistake> mistakes = {
      {"--partition does not go together with any cache but minio", [](ProfileSettings& s) { s.cache = CacheKind::none; }},
      {"any cache but minio", [](ProfileSettings& s) { s.cache = CacheKind::page; }},
      {"any cache but minio", [](ProfileSettings& s) { s.cache = CacheKind::lru, s.world = 1; }},
      {"--partition does not go together with --admit cost-aware", [](ProfileSettings& s) { s.admission = Admission::cost_aware; }},
      {"--world or --partition does not go together with --order", [](ProfileSettings& s) { s.order = OrderKind::sequential; }},
      {"--order sequential or shards", [](ProfileSettings& s) { s.partition = PartitionMode::none, s.order = OrderKind::shards; }},
      {"--order sequential or shards", [](ProfileSettings& s) { s.world = 1, s.order = OrderKind::shards; }},
      {"--jobs or --share", [](ProfileSettings& s) { s.jobs = 2; }},
      {"--jobs or --share", [](ProfileSettings& s) { s.partition = PartitionMode::none, s.share = JobSharing::coordinated; }},
      {"--jobs or --share", [](ProfileSettings& s) { s.share = JobSharing::dependent, s.producers = Producers::coordinator; }},
      {"--runs without full",
       [](ProfileSettings& s) {
         s.runs = {"prep", "fetch"};
       }},
      {"--balance-from storage", [](ProfileSettings& s) { s.balance_from = BalanceFrom::storage; }},
      {"--network emulated", [](ProfileSettings& s) { s.partition = PartitionMode::none, s.network = Seam::emulated, s.network_bytes_per_s = 5e9; }},
      {"--storage-scope shared", [](ProfileSettings& s) { s.world = 1, s.storage_scope = StorageScope::shared; }},
  };
  check_refused(settings_of_ranks(), mistakes, is_of_ranks);
}

TEST_CASE("the pages on jobs and on servers have every rule of theirs, as it is") {
  const auto check_page = [](const char* name, bool (*is_its)(const ModeRule&)) {
    const std::string page = read_file(std::filesystem::path(DOCS_FOLDER) / name);
    for (const ModeRule& rule : mode_rules()) {
      if (!is_its(rule)) continue;
      const std::string row = "| " + std::string(rule.mode) + " | " + std::string(rule.refused_with) + " | " + std::string(rule.reason) + " |\n";
      CHECK_MESSAGE(page.find(row) != std::string::npos, row);
    }
  };
  check_page("jobs.md", is_of_jobs);
  check_page("servers.md", is_of_ranks);
}
