#include "profile/training.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../base/sanitizers.hpp"
#include "../base/texts.hpp"
#include "../loaders/dataset/made_dataset.hpp"
#include "../loaders/prep/jpeg_images.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze {
namespace {

/// JPEG files of two classes: grey ones and coloured ones.
ProfileInputs two_classes(testing::FileDataset& data, int samples = 48) {
  for (int i = 0; i < samples; ++i) {
    const int label = i % 2;
    const auto bytes = test::encode_picture({.width = 100 + i, .inks = label == 0 ? test::Inks::grey : test::Inks::ycc});
    data.add(std::to_string(i) + ".jpg", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), static_cast<std::uint32_t>(label));
  }
  ProfileInputs given;
  given.index = data.index();
  given.host = read_host_facts();
  given.settings.dataset = given.index->facts().root;
  given.settings.batch_size = 7;  // the last batch of an epoch is shorter
  given.settings.time_budget_seconds = 6 * testing::time_factor;
  given.settings.accelerator = AcceleratorKind::cpu;
  given.settings.accelerator_name = "cpu";
  given.settings.accelerator_precision = Precision::float32;
  given.settings.workers = given.settings.cores = 1;
  given.image_prep.crop_size = 32;
  return given;
}

/// What is learned in so many epochs of a pipeline with so many workers and such a cache.
TrainingRecord learned(const ProfileInputs& given, int workers, CacheKind cache, std::uint64_t epochs = 3) {
  Pipeline pipeline(given,
                    {given.index,
                     cache,
                     cache == CacheKind::none ? 0 : given.index->bytes() / 2,
                     PageCacheUse::keep,
                     workers,
                     {},
                     {},
                     SlotPages::before_use,
                     {},
                     0,
                     {}},
                    system_timing());
  const auto loader = pipeline.make_loader({.epochs = epochs});
  const auto trainer = make_trainer(given, pipeline.server().devices(), 0, *loader, system_timing());
  train(
      *loader, *trainer, [](const TrainingLog&) { return false; }, {}, system_timing());
  REQUIRE(trainer->training().has_value());
  return *trainer->training();
}

TEST_CASE("real samples are learned: the loss falls far below that of a guess") {
  testing::FileDataset data;
  ProfileInputs given = two_classes(data);
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const Precision precision : {Precision::float32, Precision::float64}) {
      given.settings.dtype = dtype;
      given.settings.accelerator_precision = precision;
      const TrainingRecord record = learned(given, 2, CacheKind::minio, 12);
      CHECK(record.precision == precision_name(precision));
      REQUIRE(record.by_epoch.size() == 12);
      CHECK(record.by_epoch.back().loss < 0.5 * std::log(2));
    }
  }
}

TEST_CASE("the reference network never learns from a sample without a valid label, which is no class of its own either") {
  testing::FileDataset data;
  const auto bytes = test::encode_picture({.width = 100});
  data.add("none.jpg", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), IndexRecord::no_label);
  const ProfileInputs given = two_classes(data);
  REQUIRE(given.index->size() == 49);
  CHECK_NOTHROW(require_labels(*given.index));
  const TrainingRecord record = learned(given, 1, CacheKind::none);
  REQUIRE(record.by_epoch.size() == 3);
  for (const auto& epoch : record.by_epoch) CHECK(epoch.samples == 48);
}

TEST_CASE("caches and workers change nothing of what is learned, to the last bit") {
  testing::FileDataset data;
  ProfileInputs given = two_classes(data);
  for (const int accelerators : {1, 2}) {
    given.settings.accelerators = accelerators;
    const TrainingRecord one = learned(given, 1, CacheKind::none);
    REQUIRE(one.by_epoch.size() == 3);
    CHECK(one.by_epoch[0].samples == 48);
    CHECK(one.steps == 3 * (accelerators == 1 ? 7 : 4));
    for (const CacheKind cache : {CacheKind::none, CacheKind::minio, CacheKind::lru}) CHECK(learned(given, 3, cache).by_step == one.by_step);
    given.settings.seed = 2;
    CHECK_FALSE(learned(given, 1, CacheKind::none).by_step == one.by_step);
    given.settings.seed = 1;
  }
}

TEST_CASE("a profile with the CPU as accelerator measures G, holds losses, and says that it takes prep's cores") {
  testing::FileDataset data;
  ProfileInputs given = two_classes(data);
  const ProfilePlan plan = plan_profile(given);
  CHECK(plan.runs == std::vector<std::string>{"fetch", "synthetic", "prep", "cached", "full"});
  CHECK(std::ranges::any_of(plan.lines, [](const std::string& line) { return line.starts_with("trains: "); }));
  const ProfileResult result = run_profile(given, plan, null_events(), {}, system_timing());
  REQUIRE(result.ingestion.has_value());
  CHECK(result.ingestion->samples_per_s > 0);
  CHECK(testing::says(result.ingestion->method, "the CPU"));
  CHECK(result.host.accelerator_shares_cores);
  CHECK(testing::says(result.host.accelerator, "reference network of 12,"));  // 192 x 64 + 64 + 64 x 2 + 2
  CHECK(std::ranges::count(result.findings, "accelerator-shares-cores", &Finding::code) == 1);
  for (const char* name : {"cached", "full"}) {
    const RunRecord* run = result.run(name);
    REQUIRE(run != nullptr);
    REQUIRE(run->training.has_value());
    CHECK(run->training->classes == 2);
    CHECK(run->training->parameters == 192 * 64 + 64 + 64 * 2 + 2);
    REQUIRE_FALSE(run->training->by_epoch.empty());
    CHECK(run->stall_seconds.has_value());
    CHECK_FALSE(run->mlperf_storage_au.has_value());
  }
  CHECK_FALSE(result.run("prep")->training.has_value());
  const auto& epochs = result.run("full")->training->by_epoch;
  CHECK(std::ranges::min(epochs, {}, &TrainingRecord::EpochLoss::loss).loss < epochs.front().loss);
  const ProfileResult again = profile_from_json(to_json(result), "again");
  CHECK(again.run("full")->training->by_step == result.run("full")->training->by_step);
}

TEST_CASE("a network that is no better than a guess after two epochs is said to have learned nothing") {
  TrainingRecord training;
  training.classes = 4;  // a guess has the loss 1.386
  training.by_epoch = {{0, 100, 9}};
  CHECK(nothing_learned_text("full", training).empty());
  training.by_epoch = {{0, 100, 1.5}, {1, 100, 1.38}};
  CHECK(nothing_learned_text("full", training).empty());
  training.by_epoch.back().loss = 1.39;
  training.by_epoch.push_back({2, 7, 1.2});  // by chance: a few batches of an epoch
  CHECK(testing::says(nothing_learned_text("full", training), "no lower than the 1.386 of a guess among 4 classes"));
}

TEST_CASE("a dataset whose labels teach nothing is refused, and so is prep that writes nothing") {
  testing::FileDataset one_label;
  one_label.add("a.jpg", "a");
  one_label.add("b.jpg", "b");
  testing::FileDataset data;
  ProfileInputs given = two_classes(data, 4);
  const auto refusal = [&] {
    ProfileInputs copy = given;
    return testing::error_of([&] { plan_profile(copy); });
  };
  CHECK(refusal().empty());
  given.settings.prep = Seam::null;
  CHECK(testing::says(refusal(), "--prep null"));
  given.settings.prep = Seam::real;
  given.settings.step = StepMode::independent;
  CHECK(testing::says(refusal(), "--step independent"));
  given.settings.step = StepMode::lockstep;
  given.index = one_label.index();
  CHECK(testing::says(refusal(), "--accelerator cpu: the reference network learns labels"));
  testing::FileDataset absurd;
  absurd.add("a.jpg", "a", 0xffff'fffe);
  given.index = absurd.index();
  CHECK(testing::says(refusal(), "room for 65536"));
}

TEST_CASE("the memory of a network with many labels is part of the plan, and refused where it does not fit") {
  testing::FileDataset data;
  data.add("a.jpg", "a");
  data.add("b.jpg", "b", 60'000);
  testing::FileDataset few_labels;
  ProfileInputs given = two_classes(few_labels, 2);
  given.index = data.index();
  given.settings.accelerator_precision = Precision::float64;
  given.settings.accelerators = 2;
  given.settings.batch_size = 1;
  given.host.memory_usable = Bytes{4} << 30;
  ProfileInputs other = given;
  const Bytes needed = Bytes{5} * 60'001 * 65 * sizeof(double);
  CHECK(plan_profile(other).memory_bytes > needed);
  other = given;
  other.host.memory_usable = needed;
  CHECK(testing::says(testing::error_of([&] { plan_profile(other); }), "--accelerator cpu: the reference network"));
}

TEST_CASE("a synthetic batch has finite values and labels that there are") {
  testing::FileDataset data;
  ProfileInputs given = two_classes(data, 4);
  for (const DType dtype : {DType::uint8, DType::float32}) {
    given.settings.dtype = dtype;
    const MadeUpBatch made(given);
    CpuTrainerOptions options = cpu_trainer_options(given);
    options.memory = [&made](const Batch&) { return made.memory(); };
    const auto trainer = make_cpu_trainer(options, system_timing());
    REQUIRE(trainer->submit(made.batch()).ok());
    BatchCompletion done;
    CHECK(trainer->reap({&done, 1}, system_timing().clock->after(60)) == 1);
    CHECK(done.samples == 7);
  }
}

}  // namespace
}  // namespace dsanalyze
