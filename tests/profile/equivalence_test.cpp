#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "../trainer/toy_batches.hpp"
#include "../transport/ranks_fixture.hpp"
#include "core/partition/assignment.hpp"
#include "trainer/cpu_trainer.hpp"

// [Yang-Cong, Theorem 1]: whichever rank trains which sample of a global mini-batch, the global gradient is the same, and so are the weights.

namespace dsanalyze {
namespace {

using test::JobOfRanks;
using test::ToyBatches;

constexpr std::uint32_t world = 4;
constexpr std::uint32_t toy_samples = 600;
constexpr std::size_t global_batch = 64;  // the last of an epoch has 24
constexpr std::size_t steps = 50;

/// What a network went through.
struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;
  std::vector<std::vector<double>> weights;
};

/// The global mini-batches that regular and locality-aware loading have in common.
std::vector<std::vector<SampleId>> global_batches() {
  std::vector<std::vector<SampleId>> batches;
  std::vector<SampleId> order(toy_samples);
  for (std::uint64_t epoch = 0; batches.size() < steps; ++epoch) {
    random_permutation(mix(11, epoch), order);
    for (std::size_t begin = 0; begin < toy_samples && batches.size() < steps; begin += global_batch) {
      const std::size_t end = std::min<std::size_t>(begin + global_batch, toy_samples);
      batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin), order.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return batches;
}

/// This rank's part of the step's batch.
using Part = std::function<std::vector<SampleId>(std::size_t step, std::span<const SampleId> global)>;

Trained train(Collective* ranks, const Part& part) {
  ToyBatches toys(DType::uint8, Layout::nhwc, toy_samples);
  Trained trained;
  CpuTrainerOptions options;
  options.precision = Precision::float64;
  options.tensor = toys.tensor(1);
  options.classes = ToyBatches::classes;
  options.memory = [&toys](const Batch&) { return toys.memory(); };
  options.ranks = ranks;
  options.look = [&trained](std::span<const double> gradient, std::span<const double> weights) {
    trained.gradients.emplace_back(gradient.begin(), gradient.end());
    trained.weights.emplace_back(weights.begin(), weights.end());
  };
  const auto trainer = make_cpu_trainer(options, system_timing());
  std::size_t step = 0;
  for (const std::vector<SampleId>& global : global_batches()) {
    std::array<BatchCompletion, 1> done;
    REQUIRE(trainer->submit(toys.batch(part(step++, global))).ok());
    REQUIRE(trainer->reap(done, test::in_good_time()) == 1);
  }
  const auto record = trainer->training();
  REQUIRE(record);
  for (const auto& loss : record->by_step) trained.losses.push_back(loss.loss);
  return trained;
}

/// Ranks that are threads, each with its own data and network, and sums over sockets.
std::vector<Trained> train_together(const std::function<Part(std::uint32_t rank)>& part_of) {
  JobOfRanks job(world);
  std::vector<Trained> trained(world);
  job.each([&](std::uint32_t rank, Ranks& ranks) { trained[rank] = train(&ranks.training(), part_of(rank)); });
  return trained;
}

/// |one - other| / |one|, in the Euclidean norm.
double difference(std::span<const double> one, std::span<const double> other) {
  double of_difference = 0;
  double of_one = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    of_difference += (one[i] - other[i]) * (one[i] - other[i]);
    of_one += one[i] * one[i];
  }
  return std::sqrt(of_difference / of_one);
}

double largest_difference(const std::vector<std::vector<double>>& one, const std::vector<std::vector<double>>& other) {
  double largest = 0;
  for (std::size_t step = 0; step < one.size(); ++step) largest = std::max(largest, difference(one[step], other[step]));
  return largest;
}

Part slices(std::uint32_t rank) {
  return [rank](std::size_t, std::span<const SampleId> global) {
    const auto mine = Assignment::slice(global, static_cast<int>(rank), static_cast<int>(world));
    return std::vector<SampleId>(mine.begin(), mine.end());
  };
}

/// Rank 0 holds half, rank 3 nothing, and a tenth is held nowhere.
const PartitionDirectory& uneven_directory() {
  static const PartitionDirectory directory = [] {
    RandomStream random(3);
    std::vector<RankNumber> primaries(toy_samples);
    for (RankNumber& primary : primaries) {
      const std::uint64_t drawn = random.below(10);
      primary = drawn == 0 ? no_rank : static_cast<RankNumber>(drawn < 6 ? 0 : drawn < 8 ? 1 : 2);
    }
    return PartitionDirectory(std::move(primaries), world);
  }();
  return directory;
}

Part locality(std::uint32_t rank) {
  return [assignment = std::make_shared<LocalityAssignment>(uneven_directory(), rank)](std::size_t, std::span<const SampleId> global) {
    const auto mine = assignment->mine(global);
    return std::vector<SampleId>(mine.begin(), mine.end());
  };
}

void check_same(const Trained& one, const Trained& other) {
  constexpr double most = 1e-12;
  CHECK(largest_difference(one.gradients, other.gradients) <= most);
  CHECK(largest_difference(one.weights, other.weights) <= most);
  CHECK(difference(one.losses, other.losses) <= most);
}

TEST_CASE("Locality-aware loading has the gradients and weights of regular loading, over 50 steps of 4 ranks in double precision") {
  const Trained alone =
      train(nullptr, [](std::size_t, std::span<const SampleId> global) { return std::vector<SampleId>(global.begin(), global.end()); });
  const std::vector<Trained> regular = train_together(slices);
  const std::vector<Trained> local = train_together(locality);
  REQUIRE(alone.gradients.size() == steps);
  REQUIRE(alone.losses.size() == steps);
  CHECK(alone.losses.back() < 0.7 * alone.losses.front());  // there was something to learn
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    CAPTURE(rank);
    // All ranks of a job have the same network to the last bit.
    CHECK(regular[rank].weights == regular[0].weights);
    CHECK(local[rank].weights == local[0].weights);
    CHECK(local[rank].losses == local[0].losses);
    check_same(regular[rank], local[rank]);
    check_same(regular[rank], alone);
  }
  // They do add up in another order, so it is not the same training twice.
  CHECK(regular[0].weights.back() != local[0].weights.back());
}

TEST_CASE("One sample that no rank trains, once in 50 steps, shows in gradients, weights and losses") {
  const auto without_one = [](std::uint32_t rank) -> Part {
    return [part = locality(rank), rank](std::size_t step, std::span<const SampleId> global) {
      std::vector<SampleId> mine = part(step, global);
      if (rank == 2 && step == 30) mine.pop_back();
      return mine;
    };
  };
  const Trained whole = train_together(locality).front();
  const Trained less = train_together(without_one).front();
  CHECK(difference(whole.weights[29], less.weights[29]) == 0);
  CHECK(difference(whole.gradients[30], less.gradients[30]) > 1e-4);
  CHECK(difference(whole.weights.back(), less.weights.back()) > 1e-7);
  CHECK(difference(whole.losses, less.losses) > 1e-6);
}

}  // namespace
}  // namespace dsanalyze
