#include "trainer/reference_network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "toy_batches.hpp"

namespace dsanalyze {
namespace {

using test::ToyBatches;

NetworkOptions toy_network(const PooledInputs& inputs, std::uint32_t hidden = 16) {
  NetworkOptions options;
  options.inputs = inputs.size();
  options.hidden = hidden;
  options.classes = ToyBatches::classes;
  options.seed = 3;
  return options;
}

/// The greatest difference, as a share of the greatest value.
template <typename Real>
double relative_difference(const std::vector<Real>& one, const std::vector<Real>& other) {
  double difference = 0, greatest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(one[i]) - static_cast<double>(other[i])));
    greatest = std::max(greatest, std::abs(static_cast<double>(one[i])));
  }
  return difference / greatest;
}

template <typename Real>
GradientSum<Real> gradient_of(const ReferenceNetwork<Real>& network, const PooledInputs& inputs, const Batch& batch, const ToyBatches& toys) {
  GradientWorker<Real> worker(inputs, network.options());
  GradientSum<Real> sum;
  sum.clear(network.parameters().size());
  worker.add(network, batch, toys.memory(), sum);
  return sum;
}

std::vector<std::int64_t> plain_begins(std::int64_t length, std::int64_t cells) {
  std::vector<std::int64_t> begins;
  for (std::int64_t cell = 0; cell <= cells; ++cell) begins.push_back(cell * length / cells);
  return begins;
}

TEST_CASE("inputs are the means of a grid's cells, whatever the shape, type and strides") {
  struct Case {
    std::vector<std::int64_t> dimensions;
    std::vector<std::int64_t> cells;
  };
  for (const Case& c : {Case{{1, 3, 224, 224}, {3, 8, 8}}, Case{{1, 224, 224, 3}, {8, 8, 3}}, Case{{1, 3, 5, 9}, {3, 5, 8}},
                        Case{{1, 7, 6, 5}, {6, 6, 5}}, Case{{1, 28, 28}, {1, 8, 8}}, Case{{1, 1000}, {1, 1, 256}}, Case{{1, 30}, {1, 1, 30}},
                        Case{{1}, {1, 1, 1}}, Case{{1, 2, 40, 2}, {2, 40, 2}}}) {
    for (const DType dtype : {DType::uint8, DType::float32}) {
      for (const std::int64_t apart : {1, 3}) {
        TensorShape tensor = TensorShape::of(dtype, c.dimensions);
        for (std::int64_t& stride : tensor.strides) stride *= apart;
        std::vector<std::int64_t> lengths(c.dimensions.begin() + 1, c.dimensions.end()),
            strides(tensor.strides.begin() + 1, tensor.strides.begin() + tensor.dimensions);
        while (lengths.size() < 3) {
          lengths.insert(lengths.begin(), 1);
          strides.insert(strides.begin(), 0);
        }
        std::vector<std::uint8_t> bytes(tensor.sample_bytes() / dtype_bytes(dtype) * static_cast<std::size_t>(apart));
        std::vector<float> floats(bytes.size());
        RandomStream random(7);
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          bytes[i] = static_cast<std::uint8_t>(random.below(256));
          floats[i] = static_cast<float>(random.uniform(-2, 2));
        }
        const auto* sample =
            dtype == DType::uint8 ? reinterpret_cast<const std::byte*>(bytes.data()) : reinterpret_cast<const std::byte*>(floats.data());

        std::vector<double> expected;
        const auto first = plain_begins(lengths[0], c.cells[0]), second = plain_begins(lengths[1], c.cells[1]),
                   last = plain_begins(lengths[2], c.cells[2]);
        for (std::size_t a = 0; a + 1 < first.size(); ++a) {
          for (std::size_t b = 0; b + 1 < second.size(); ++b) {
            for (std::size_t k = 0; k + 1 < last.size(); ++k) {
              double sum = 0;
              int count = 0;
              for (std::int64_t x = first[a]; x < first[a + 1]; ++x) {
                for (std::int64_t y = second[b]; y < second[b + 1]; ++y) {
                  for (std::int64_t z = last[k]; z < last[k + 1]; ++z, ++count) {
                    const auto at = static_cast<std::size_t>(x * strides[0] + y * strides[1] + z * strides[2]);
                    sum += dtype == DType::uint8 ? bytes[at] / 127.5 - 1 : static_cast<double>(floats[at]);
                  }
                }
              }
              expected.push_back(sum / count);
            }
          }
        }
        const PooledInputs inputs(tensor);
        REQUIRE(inputs.size() == expected.size());
        std::vector<double> found(inputs.size()), room;
        inputs.read<double>(sample, found, room);
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-9).scale(1));
        std::vector<float> found_floats(inputs.size()), room_floats;
        inputs.read<float>(sample, found_floats, room_floats);
        for (std::size_t i = 0; i < found.size(); ++i)
          CHECK(static_cast<double>(found_floats[i]) == doctest::Approx(expected[i]).epsilon(1e-5).scale(1));
      }
    }
  }
  CHECK_THROWS_AS(PooledInputs(TensorShape::of(DType::uint8, std::array<std::int64_t, 3>{1, 0, 4})), Error);
}

TEST_CASE("each parameter's gradient is the loss's finite difference") {
  ToyBatches toys(DType::float32, Layout::nchw, 70);  // more than are worked on at once
  const Batch batch = toys.batch(0, toys.size());
  const PooledInputs inputs(toys.tensor(1));
  ReferenceNetwork<double> network(toy_network(inputs, 5));
  // Away from the beginning, where the biases are 0.
  RandomStream random(9);
  for (double& parameter : network.parameters()) parameter += 0.05 * random.normal();
  const GradientSum<double> sum = gradient_of(network, inputs, batch, toys);
  CHECK(sum.samples == toys.size());
  constexpr double step = 1e-6;
  double greatest = 0;
  for (const double each : sum.gradient) greatest = std::max(greatest, std::abs(each));
  REQUIRE(greatest > 1);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < network.parameters().size(); ++i) {
    const double kept = network.parameters()[i];
    network.parameters()[i] = kept + step;
    const double above = gradient_of(network, inputs, batch, toys).loss;
    network.parameters()[i] = kept - step;
    const double below = gradient_of(network, inputs, batch, toys).loss;
    network.parameters()[i] = kept;
    if (std::abs((above - below) / (2 * step) - sum.gradient[i]) > 1e-6 * greatest) ++differing;
  }
  CHECK(differing == 0);
}

TEST_CASE("gradients of parts add up to the whole batch's within 1e-12 in double, and 1e-4 in float") {
  ToyBatches toys(DType::uint8, Layout::nhwc, 300);
  const PooledInputs inputs(toys.tensor(1));
  const auto difference = [&]<typename Real>(Real) {
    const ReferenceNetwork<Real> network(toy_network(inputs));
    const GradientSum<Real> whole = gradient_of(network, inputs, toys.batch(0, 300), toys);
    GradientSum<Real> parts;
    parts.clear(network.parameters().size());
    SampleId first = 0;
    for (const std::uint32_t count : {1U, 150U, 64U, 0U, 85U}) {
      parts.add(gradient_of(network, inputs, toys.batch(first, count), toys));
      first += count;
    }
    CHECK(parts.samples == whole.samples);
    CHECK(parts.loss == doctest::Approx(whole.loss).epsilon(1e-6));
    return relative_difference(whole.gradient, parts.gradient);
  };
  CHECK(difference(double{}) <= 1e-12);
  CHECK(difference(float{}) <= 1e-4);
}

TEST_CASE("batches cut over servers in any sizes keep the global gradient for 50 steps [Yang-Cong, Theorem 1]") {
  constexpr std::uint32_t batch_size = 96, servers = 4;
  ToyBatches toys(DType::float32, Layout::nhwc, 960);
  const PooledInputs inputs(toys.tensor(1));
  ReferenceNetwork<double> alone(toy_network(inputs)), together(toy_network(inputs));
  RandomStream random(21);
  double worst = 0;
  for (SampleId step = 0; step < 50; ++step) {
    std::vector<SampleId> ids(toys.size());
    random_permutation(step, ids);
    ids.resize(batch_size);
    const GradientSum<double> whole = gradient_of(alone, inputs, toys.batch(ids), toys);
    // The server that holds a sample takes it: the servers' shares differ, and so does the order.
    std::vector<std::vector<SampleId>> held(servers);
    for (const SampleId id : ids) held[random.below(servers)].push_back(id);
    GradientSum<double> sum;
    sum.clear(whole.gradient.size());
    for (const auto& local : held) sum.add(gradient_of(together, inputs, toys.batch(local), toys));
    worst = std::max(worst, relative_difference(whole.gradient, sum.gradient));
    alone.descend(whole);
    together.descend(sum);
  }
  CHECK(worst <= 1e-12);
}

TEST_CASE("the first weights are the seed's, and about as large as the layer asks for") {
  const PooledInputs inputs(TensorShape::images(DType::uint8, Layout::nchw, 1, 3, 32, 32));
  NetworkOptions options = toy_network(inputs, 32);
  const ReferenceNetwork<double> one(options), same(options);
  const ReferenceNetwork<float> coarse(options);
  options.seed = 4;
  const ReferenceNetwork<double> other(options);
  CHECK(std::ranges::equal(one.parameters(), same.parameters()));
  CHECK_FALSE(std::ranges::equal(one.parameters(), other.parameters()));
  CHECK(std::ranges::equal(one.parameters(), coarse.parameters(), [](double fine, float rough) { return static_cast<float>(fine) == rough; }));
  const auto hidden = one.parameters().first(std::size_t{options.inputs} * options.hidden);
  CHECK(std::ranges::max(hidden) == doctest::Approx(std::sqrt(6.0 / options.inputs)).epsilon(0.01));
  CHECK(one.parameters()[hidden.size()] == 0);
}

TEST_CASE("what cannot be learned from is an error that names the sample") {
  ToyBatches toys(DType::float32, Layout::nchw, 100);
  const PooledInputs inputs(toys.tensor(1));
  ReferenceNetwork<float> network(toy_network(inputs));
  const auto message = [&](const Batch& batch) -> std::string {
    try {
      gradient_of(network, inputs, batch, toys);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  toys.labels()[83] = 4;
  CHECK(message(toys.batch(20, 80)).find("sample 83 has the label 4") != std::string::npos);
  toys.labels()[83] = 0;
  CHECK(message(toys.batch(20, 80)).empty());
  toys.sample(97)[5] = std::numeric_limits<double>::quiet_NaN();
  CHECK(message(toys.batch(20, 80)).find("sample 97 has values") != std::string::npos);
  toys.sample(97)[5] = 0;
  float& bias = network.parameters().back();
  bias = std::numeric_limits<float>::infinity();
  CHECK(message(toys.batch(20, 80)).find("diverged") != std::string::npos);
  bias = 0;
  Batch other = toys.batch(0, 10);
  other.tensor = TensorShape::images(DType::float32, Layout::nchw, 10, 3, 12, 13);
  CHECK(message(other).find("another shape") != std::string::npos);
  CHECK(message(toys.batch(0, 0)).empty());
}

}  // namespace
}  // namespace dsanalyze
