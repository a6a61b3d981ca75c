#include "trainer/cpu_trainer.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "toy_batches.hpp"

namespace dsanalyze {
namespace {

using test::ToyBatches;

CpuTrainerOptions toy_options(const ToyBatches& toys, Precision precision, std::uint32_t accelerators = 1) {
  CpuTrainerOptions options;
  options.accelerators = accelerators;
  options.precision = precision;
  options.tensor = toys.tensor(1);
  options.classes = ToyBatches::classes;
  options.memory = [&toys](const Batch&) { return toys.memory(); };
  return options;
}

Deadline in_time() { return system_timing().clock->after(60); }

std::size_t reap_step(Trainer& trainer) {
  std::array<BatchCompletion, 8> done;
  return trainer.reap(done, in_time());
}

/// Epochs over all samples by global batches that are cut into as many slices as there are accelerators; the last of an epoch is short.
TrainingRecord learn(ToyBatches& toys, const CpuTrainerOptions& options, std::uint32_t batch_size, std::uint64_t epochs, std::uint64_t order = 1) {
  const auto trainer = make_cpu_trainer(options, system_timing());
  std::vector<SampleId> ids(toys.size());
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    random_permutation(mix(order, epoch), ids);
    for (std::size_t begin = 0; begin < ids.size(); begin += batch_size) {
      const std::size_t count = std::min<std::size_t>(batch_size, ids.size() - begin);
      const std::uint32_t slices = static_cast<std::uint32_t>(std::min<std::size_t>(options.accelerators, count));
      for (std::uint32_t slice = 0; slice < slices; ++slice) {
        const std::size_t from = begin + count * slice / slices, to = begin + count * (slice + 1) / slices;
        Batch batch = toys.batch({ids.begin() + static_cast<std::ptrdiff_t>(from), ids.begin() + static_cast<std::ptrdiff_t>(to)});
        batch.slices = slices;
        batch.slice = slice;
        batch.epoch = epoch;
        REQUIRE(trainer->wants_batch());
        REQUIRE(trainer->submit(batch).ok());
      }
      CHECK_FALSE(trainer->wants_batch());
      REQUIRE(reap_step(*trainer) == slices);
    }
  }
  REQUIRE(trainer->training().has_value());
  return *trainer->training();
}

/// Threads of this process that are on a core or ready for one, beside this one.
int other_threads_that_run() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string status;
    std::ifstream file(thread.path() / "stat");
    std::getline(file, status);
    const std::size_t name_end = status.rfind(')');
    if (thread.path().filename() != std::to_string(::gettid()) && name_end != std::string::npos && status[name_end + 2] == 'R') ++count;
  }
  return count;
}

TEST_CASE("the loss falls on images that can be learned, in either type, layout and precision") {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const Precision precision : {Precision::float32, Precision::float64}) {
        ToyBatches toys(dtype, layout, 200);
        const TrainingRecord record = learn(toys, toy_options(toys, precision), 32, 8);
        CHECK(record.precision == precision_name(precision));
        CHECK(record.steps == 8 * 7);
        CHECK(record.by_step.size() == record.steps);
        REQUIRE(record.by_epoch.size() == 8);
        for (const auto& epoch : record.by_epoch) CHECK(epoch.samples == 200);
        CHECK(record.by_step.front().loss > 1);
        CHECK(record.by_epoch.back().loss < 0.25);
      }
    }
  }
}

TEST_CASE("the same order gives the same losses to the last bit, another order or seed others") {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    ToyBatches toys(DType::uint8, Layout::nchw, 150);
    CpuTrainerOptions options = toy_options(toys, precision, 3);
    const TrainingRecord one = learn(toys, options, 48, 3);
    const TrainingRecord same = learn(toys, options, 48, 3);
    CHECK(one.by_step == same.by_step);
    CHECK(one.by_epoch == same.by_epoch);
    CHECK_FALSE(one.by_step == learn(toys, options, 48, 3, 2).by_step);
    options.seed = 2;
    CHECK_FALSE(one.by_step == learn(toys, options, 48, 3).by_step);
  }
}

TEST_CASE("where a batch lies in memory changes no bit of what is learned from it") {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (const DType dtype : {DType::uint8, DType::float32}) {
      ToyBatches toys(dtype, Layout::nhwc, 90);
      const Batch first = toys.batch(0, 37), second = toys.batch(37, 53);
      std::vector<std::vector<TrainingRecord::StepLoss>> found;
      for (const std::size_t shift : {0U, 8U, 24U, 40U}) {
        std::vector<std::uint64_t> moved((toys.bytes() + shift) / sizeof(std::uint64_t) + 1);
        auto* const begin = reinterpret_cast<std::byte*>(moved.data()) + shift;
        std::copy_n(toys.memory(), toys.bytes(), begin);
        CpuTrainerOptions options = toy_options(toys, precision);
        options.memory = [begin](const Batch&) { return begin; };
        const auto trainer = make_cpu_trainer(options, system_timing());
        for (int again = 0; again < 5; ++again) {
          for (const Batch& batch : {first, second}) {
            REQUIRE(trainer->submit(batch).ok());
            REQUIRE(reap_step(*trainer) == 1);
          }
        }
        found.push_back(trainer->training()->by_step);
      }
      for (const auto& losses : found) CHECK(losses == found.front());
    }
  }
}

TEST_CASE("three accelerators in lockstep learn what one learns from the whole batch") {
  ToyBatches toys(DType::float32, Layout::nhwc, 100);  // the last batch has one sample: a step of one slice
  const TrainingRecord one = learn(toys, toy_options(toys, Precision::float64), 33, 10);
  const TrainingRecord three = learn(toys, toy_options(toys, Precision::float64, 3), 33, 10);
  REQUIRE(one.by_step.size() == three.by_step.size());
  for (std::size_t i = 0; i < one.by_step.size(); ++i)
    CHECK(three.by_step[i].loss == doctest::Approx(one.by_step[i].loss).epsilon(1e-11).scale(0.01));
}

/// Ranks that are threads of one process.
class MeetingPlace {
 public:
  explicit MeetingPlace(int world) : m_world(world) {}
  Status sum(std::span<double> values) {
    std::unique_lock lock(m_mutex);
    if (m_arrived++ == 0) m_sum.assign(values.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) m_sum[i] += values[i];
    const int round = m_round;
    if (m_arrived == m_world) {
      m_arrived = 0;
      m_result = m_sum;
      ++m_round;
      m_met.notify_all();
    } else if (!m_met.wait_for(lock, std::chrono::seconds(60), [&] { return m_round != round; })) {
      return {StatusCode::timeout, 0};
    }
    std::ranges::copy(m_result, values.begin());
    return {};
  }
  [[nodiscard]] int world() const { return m_world; }

 private:
  std::mutex m_mutex;
  std::condition_variable m_met;
  std::vector<double> m_sum, m_result;
  int m_world, m_arrived = 0, m_round = 0;
};

class ThreadRank final : public Collective {
 public:
  ThreadRank(MeetingPlace& place, int rank) : m_place(place), m_rank(rank) {}
  [[nodiscard]] int rank() const override { return m_rank; }
  [[nodiscard]] int world() const override { return m_place.world(); }
  Status barrier(Deadline) override { return {}; }
  Status sum(std::span<double> values, Deadline) override { return m_place.sum(values); }
  Status gather(std::span<const std::byte>, std::span<std::byte>, Deadline) override { return {StatusCode::unsupported, 0}; }

 private:
  MeetingPlace& m_place;
  int m_rank;
};

class LostRanks final : public Collective {
 public:
  [[nodiscard]] int rank() const override { return 1; }
  [[nodiscard]] int world() const override { return 4; }
  Status barrier(Deadline) override { return {StatusCode::timeout, 0}; }
  Status sum(std::span<double>, Deadline) override { return {StatusCode::timeout, 0}; }
  Status gather(std::span<const std::byte>, std::span<std::byte>, Deadline) override { return {StatusCode::timeout, 0}; }
};

TEST_CASE("ranks that each train on a part of the batch learn together what one learns alone, one of them without a sample now and then") {
  constexpr std::uint32_t steps = 20, batch_size = 30;
  ToyBatches toys(DType::uint8, Layout::nchw, steps * batch_size);
  std::vector<Batch> whole;
  std::array<std::vector<Batch>, 2> parts;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::uint32_t cut = step % 5 == 0 ? 0 : 7 + step % 3;
    whole.push_back(toys.batch(step * batch_size, batch_size));
    parts[0].push_back(toys.batch(step * batch_size, cut));
    parts[1].push_back(toys.batch(step * batch_size + cut, batch_size - cut));
  }
  const auto losses = [&toys](const std::vector<Batch>& batches, Collective* ranks) {
    CpuTrainerOptions options = toy_options(toys, Precision::float64);
    options.ranks = ranks;
    const auto trainer = make_cpu_trainer(options, system_timing());
    for (const Batch& batch : batches) {
      if (!trainer->submit(batch).ok() || reap_step(*trainer) != 1) break;
    }
    return trainer->training()->by_step;
  };
  const auto alone = losses(whole, nullptr);
  REQUIRE(alone.size() == steps);
  MeetingPlace place(2);
  std::array<std::vector<TrainingRecord::StepLoss>, 2> together;
  {
    std::vector<std::jthread> threads;
    for (const std::size_t rank : {0U, 1U}) {
      threads.emplace_back([&, rank] {
        ThreadRank collective(place, static_cast<int>(rank));
        together[rank] = losses(parts[rank], &collective);
      });
    }
  }
  CHECK(together[0] == together[1]);
  REQUIRE(together[0].size() == steps);
  for (std::size_t i = 0; i < steps; ++i) CHECK(together[0][i].loss == doctest::Approx(alone[i].loss).epsilon(1e-12));
}

TEST_CASE("ranks that do not answer end the training with an error that says so") {
  ToyBatches toys(DType::uint8, Layout::nchw, 8);
  LostRanks lost;
  CpuTrainerOptions options = toy_options(toys, Precision::float32);
  options.ranks = &lost;
  const auto trainer = make_cpu_trainer(options, system_timing());
  REQUIRE(trainer->submit(toys.batch(0, 8)).ok());
  CHECK_THROWS_WITH_AS(reap_step(*trainer), doctest::Contains("rank 1 of 4"), Error);
}

TEST_CASE("what a thread found wrong is thrown when the step is reaped, and no step follows it") {
  ToyBatches toys(DType::uint8, Layout::nchw, 8);
  toys.labels()[5] = 77;
  const auto trainer = make_cpu_trainer(toy_options(toys, Precision::float32, 2), system_timing());
  for (const SampleId first : {0U, 4U}) {
    Batch batch = toys.batch(first, 4);
    batch.slices = 2;
    REQUIRE(trainer->submit(batch).ok());
  }
  for (int again = 0; again < 2; ++again) CHECK_THROWS_WITH_AS(reap_step(*trainer), doctest::Contains("sample 5 has the label 77"), Error);
  CHECK_FALSE(trainer->wants_batch());
  CHECK(trainer->submit(toys.batch(0, 4)).code == StatusCode::busy);
  CHECK(trainer->training()->steps == 0);
}

TEST_CASE("a step is handed out in as many parts as the caller has room for, with its own times") {
  ToyBatches toys(DType::uint8, Layout::nchw, 40);
  const auto trainer = make_cpu_trainer(toy_options(toys, Precision::float32, 2), system_timing());
  std::array<BatchCompletion, 1> one;
  CHECK(trainer->reap(one, in_time()) == 0);
  Nanoseconds last_end = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::uint32_t slice = 0; slice < 2; ++slice) {
      Batch batch = toys.batch(20 * slice, 10 + slice);
      batch.slices = 2;
      batch.step = step;
      batch.token = {slice, step};
      REQUIRE(trainer->submit(batch).ok());
    }
    CHECK(trainer->submit(toys.batch(0, 1)).code == StatusCode::busy);
    for (std::uint32_t slice = 0; slice < 2; ++slice) {
      REQUIRE(trainer->reap(one, in_time()) == 1);
      CHECK(one[0].token.slot == slice);
      CHECK(one[0].samples == 10 + slice);
      CHECK(one[0].step == step);
      CHECK(one[0].begin <= one[0].end);
      CHECK(one[0].stall == (last_end == 0 ? 0 : one[0].begin - last_end));
    }
    last_end = one[0].end;
    CHECK(trainer->wants_batch());
  }
  CHECK(trainer->training()->steps == 3);
}

TEST_CASE("a trainer with a step that runs, or is half gathered, ends cleanly") {
  ToyBatches toys(DType::float32, Layout::nchw, 600);
  const Batch whole = toys.batch(0, 600);
  const auto under_way = make_cpu_trainer(toy_options(toys, Precision::float64), system_timing());
  REQUIRE(under_way->submit(whole).ok());
  const auto gathered = make_cpu_trainer(toy_options(toys, Precision::float64, 2), system_timing());
  Batch half = whole;
  half.slices = 2;
  REQUIRE(gathered->submit(half).ok());
  CHECK(gathered->wants_batch());
}

TEST_CASE("accelerators that have no step to run wait, and use no core") {
  ToyBatches toys(DType::float32, Layout::nchw, 8);
  const auto trainer = make_cpu_trainer(toy_options(toys, Precision::float32, 4), system_timing());
  const Deadline end = system_timing().clock->after(20);
  while (other_threads_that_run() > 0 && system_timing().clock->now() < end.at) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(other_threads_that_run() == 0);
}

TEST_CASE("options that make no network are refused") {
  ToyBatches toys(DType::uint8, Layout::nchw, 1);
  CpuTrainerOptions options = toy_options(toys, Precision::float32);
  options.classes = 0;
  CHECK_THROWS_AS(make_cpu_trainer(options, system_timing()), UsageError);
  options = toy_options(toys, Precision::float32, 0);
  CHECK_THROWS_AS(make_cpu_trainer(options, system_timing()), UsageError);
  options = toy_options(toys, Precision::float32);
  CHECK(cpu_trainer_memory(options) >= sizeof(float) * 4 * 64 * options.classes);
}

TEST_CASE("losses of a long run are thinned evenly, those of its epochs keep the first and the last") {
  LossHistory history({});
  constexpr std::uint64_t steps = 10'500, steps_an_epoch = 30;
  for (std::uint64_t step = 0; step < steps; ++step) history.add(step / steps_an_epoch, 2.0 * static_cast<double>(step), 2);
  const TrainingRecord& record = history.record();
  CHECK(record.steps == steps);
  CHECK(record.by_step.size() <= TrainingRecord::most_steps);
  CHECK(record.by_step.size() > TrainingRecord::most_steps / 2);
  for (std::size_t i = 0; i < record.by_step.size(); ++i) {
    CHECK(record.by_step[i].step == 16 * i);
    CHECK(record.by_step[i].loss == static_cast<double>(record.by_step[i].step));
  }
  REQUIRE(record.by_epoch.size() == TrainingRecord::most_epochs);
  CHECK(record.by_epoch.front() == TrainingRecord::EpochLoss{0, 60, 14.5});
  CHECK(record.by_epoch[1].epoch == steps / steps_an_epoch - (TrainingRecord::most_epochs - 1));
  CHECK(record.by_epoch.back() == TrainingRecord::EpochLoss{349, 60, 349 * 30 + 14.5});
}

}  // namespace
}  // namespace dsanalyze
