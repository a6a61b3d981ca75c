#include <doctest/doctest.h>

#include <array>
#include <memory>

#include "base/clock.hpp"
#include "loaders/prep/prep.hpp"

using namespace dsanalyze;

namespace {

constexpr Nanoseconds cost = 2'000'000;

/// Burns `cost` and finds every sample corrupt.
class CostlyPrep final : public Prep {
 public:
  Status prepare(const PrepTask& task) override {
    const Nanoseconds until = thread_cpu_time() + cost;
    while (thread_cpu_time() < until) continue;
    task.output.front() = std::byte{7};
    return corrupt(Corruption::shorter);
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {cost}; }
};

class CostlyPrepFactory final : public PrepFactory {
 public:
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<CostlyPrep>(); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override { return TensorShape::images(DType::uint8, Layout::nhwc, count, 1, 1, 1); }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {"burn"}; }
};

}  // namespace

TEST_CASE("slowed prep burns its share of each sample's CPU time once more and changes nothing else") {
  const auto factory = make_slowed_prep(std::make_unique<CostlyPrepFactory>(), 0.5);
  CHECK(factory->operator_names() == std::vector<std::string_view>{"burn"});
  CHECK(factory->tensor(3).shape[0] == 3);
  const auto prep = factory->make();
  std::array<std::byte, 1> output{};
  const Nanoseconds begin = thread_cpu_time();
  const Status status = prep->prepare({{}, 0, 0, 0, output});
  CHECK(thread_cpu_time() - begin >= cost + cost / 2);
  CHECK(status.code == StatusCode::corrupt);
  CHECK(output[0] == std::byte{7});
  CHECK(prep->operator_times() == std::vector<Nanoseconds>{cost});
}
