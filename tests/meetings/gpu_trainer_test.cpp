#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "../cuda/fake_gpu.hpp"
#include "base/error.hpp"
#include "core/gpu.hpp"
#include "core/mesh.hpp"
#include "cuda/cuda_driver.hpp"
#include "trainer/gpu_trainer.hpp"

// Where the trainer and the driver's layer meet.

using namespace dsanalyze;

namespace {

/// Batches of one sample of 1 KiB each, whose bytes are the batch's number.
struct Slots {
  explicit Slots(std::size_t count) : memory(count * 4096) {
    for (std::size_t i = 0; i < count; ++i) std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(i * 4096), 4096, static_cast<std::byte>(i));
  }
  Batch batch(std::uint32_t slot, std::uint32_t slice, std::uint32_t slices, std::uint32_t count) const {
    Batch made;
    made.token = {slot, 1};
    made.slice = slice;
    made.slices = slices;
    made.count = count;
    const std::array<std::int64_t, 2> shape{count, 64};
    made.tensor = TensorShape::of(DType::uint8, shape);
    made.ready_at = system_timing().clock->now();
    return made;
  }
  std::vector<std::byte> memory;
};

GpuTrainerOptions options_of(Slots& slots, std::uint32_t accelerators, StepMode step) {
  GpuTrainerOptions options;
  options.tensor = slots.batch(0, 0, 1, 60).tensor;
  options.layout = BatchLayout::identity(accelerators, options.tensor);
  options.samples_per_second = 1000;
  options.step = step;
  options.slot_bytes = 4096;
  options.memory = [&slots](const Batch& batch) { return slots.memory.data() + batch.token.slot * std::size_t{4096}; };
  return options;
}

std::vector<BatchCompletion> all_of(Trainer& trainer, std::size_t count) {
  std::vector<BatchCompletion> ended;
  std::array<BatchCompletion, 8> some;
  const Deadline deadline = system_timing().clock->after(20);
  while (ended.size() < count && system_timing().clock->now() < deadline.at) {
    const std::size_t reaped = trainer.reap(some, system_timing().clock->after(0.1));
    ended.insert(ended.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(reaped));
  }
  return ended;
}

}  // namespace

TEST_CASE("batches are given back when their step has ended, in lockstep all of a step at once") {
  const Fake fake("devices=2,bus=1e9");
  {
    const auto driver = open_cuda_driver(kernels());
    const std::vector<std::shared_ptr<Gpu>> gpus{driver->open(0), driver->open(1)};
    Slots slots(4);
    const auto trainer = make_gpu_trainer(options_of(slots, 2, StepMode::lockstep), gpus, system_timing());
    std::array<BatchCompletion, 4> none;
    CHECK(trainer->reap(none, system_timing().clock->after(5)) == 0);  // at once: nothing runs
    // Two steps of 20 ms: the first one's batches, of 20 and 10 samples, end together.
    for (std::uint32_t i = 0; i < 4; ++i) {
      REQUIRE(trainer->wants_batch());
      REQUIRE(trainer->submit(slots.batch(i, i % 2, 2, i == 1 ? 10 : 20)).ok());
    }
    CHECK_FALSE(trainer->wants_batch());
    CHECK(trainer->submit(slots.batch(0, 0, 2, 1)).code == StatusCode::busy);
    const auto ended = all_of(*trainer, 4);
    REQUIRE(ended.size() == 4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      CHECK(ended[i].token.slot == i);
      CHECK(ended[i].end - ended[i].begin >= 19'000'000);
    }
    CHECK(std::abs(ended[0].end - ended[1].end) < 5'000'000);
    CHECK(ended[2].begin >= ended[0].end);
    CHECK(trainer->wants_batch());
    // The last step of an epoch has one batch.
    REQUIRE(trainer->submit(slots.batch(0, 0, 1, 5)).ok());
    CHECK(all_of(*trainer, 1).size() == 1);
    REQUIRE(trainer->submit(slots.batch(1, 0, 2, 5)).ok());
    REQUIRE(trainer->submit(slots.batch(2, 1, 2, 5)).ok());
    CHECK(all_of(*trainer, 2).size() == 2);
  }
  CHECK(Fake::held() == 0);
}

TEST_CASE("independent GPUs take the next batch as they become free") {
  const Fake fake("devices=1");
  const auto driver = open_cuda_driver(kernels());
  const auto gpu = driver->open(0);
  const std::vector<std::shared_ptr<Gpu>> gpus{gpu, gpu};  // one stands for two
  Slots slots(4);
  GpuTrainerOptions options = options_of(slots, 2, StepMode::independent);
  options.samples_per_second = 200;  // so that the long batch outlasts this loop on a busy machine
  const auto trainer = make_gpu_trainer(options, gpus, system_timing());
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(trainer->submit(slots.batch(i, 0, 1, i == 0 ? 60 : 1)).ok());
  CHECK_FALSE(trainer->wants_batch());
  const auto ended = all_of(*trainer, 4);
  REQUIRE(ended.size() == 4);
  CHECK(ended.back().token.slot == 2);  // it waited behind the long one, on the same accelerator
}

TEST_CASE("a GPU that is lost ends the training with an error and holds nothing up") {
  const Fake fake("lost_after=2");
  const auto driver = open_cuda_driver(kernels());
  const std::vector<std::shared_ptr<Gpu>> gpus{driver->open(0)};
  Slots slots(4);
  const auto trainer = make_gpu_trainer(options_of(slots, 1, StepMode::lockstep), gpus, system_timing());
  const auto train = [&] {
    for (std::uint32_t i = 0; i < 100; ++i) {
      if (!trainer->submit(slots.batch(i % 4, 0, 1, 1)).ok()) break;
      all_of(*trainer, 1);
    }
  };
  CHECK_THROWS_WITH_AS(train(), doctest::Contains("the GPU was lost"), Error);
}

TEST_CASE("batches that are on the GPU already are not copied") {
  const Fake fake("bus=1000");  // a copy would take 20 s
  const auto driver = open_cuda_driver(kernels());
  const std::vector<std::shared_ptr<Gpu>> gpus{driver->open(0)};
  Slots slots(1);
  GpuTrainerOptions options = options_of(slots, 1, StepMode::lockstep);
  options.memory = {};
  const auto trainer = make_gpu_trainer(options, gpus, system_timing());
  REQUIRE(trainer->submit(slots.batch(0, 0, 1, 10)).ok());
  const auto ended = all_of(*trainer, 1);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].end - ended[0].begin < 5'000'000'000);
  CHECK_THROWS_AS(make_gpu_trainer(options, {}, system_timing()), UsageError);
}
