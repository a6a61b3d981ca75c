#include "profile/prep_probe.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/clock.hpp"

using namespace dsanalyze;

namespace {

constexpr std::size_t samples = 4;
constexpr double least_seconds = 0.0002;

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Seen {
  std::atomic<std::size_t> prepared{0};
  std::atomic<std::size_t> out_of_turn{0};
  std::atomic<std::size_t> wrong_room{0};
};

/// Burns so much of the CPU for each sample, whose first byte is its number.
class BurningPrep final : public Prep {
 public:
  explicit BurningPrep(Seen& seen) : m_seen(seen) {}
  Status prepare(const PrepTask& task) override {
    if (static_cast<std::size_t>(task.encoded[0]) != m_seen.prepared % samples) ++m_seen.out_of_turn;
    if (task.output.size() != static_cast<std::size_t>(TensorShape::images(DType::uint8, Layout::nhwc, 1, 3, 2, 2).sample_bytes()))
      ++m_seen.wrong_room;
    const double end = cpu_seconds() + least_seconds;
    while (cpu_seconds() < end) {
    }
    ++m_seen.prepared;
    return {};
  }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {}; }

 private:
  Seen& m_seen;
};

class BurningFactory final : public PrepFactory {
 public:
  explicit BurningFactory(Seen& seen) : m_seen(seen) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<BurningPrep>(m_seen); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override { return TensorShape::images(DType::uint8, Layout::nhwc, count, 3, 2, 2); }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {}; }

 private:
  Seen& m_seen;
};

}  // namespace

TEST_CASE("the probe prepares its samples in turn and tells what one of them takes of the CPU") {
  Seen seen;
  const BurningFactory factory(seen);
  ManualTiming time;  // its sleeps take no time
  std::vector<std::vector<std::byte>> encoded;
  for (std::size_t i = 0; i < samples; ++i) encoded.push_back({static_cast<std::byte>(i)});
  PrepProbe probe(encoded, factory, {}, time.timing());
  while (seen.prepared < 10 * samples) std::this_thread::yield();
  CHECK(probe.end() >= least_seconds);
  CHECK(seen.out_of_turn == 0);
  CHECK(seen.wrong_room == 0);
  const std::size_t at_the_end = seen.prepared;
  CHECK(probe.end() >= least_seconds);
  CHECK(seen.prepared == at_the_end);
}
