#include "profile/storage_point.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <numeric>

using namespace dsanalyze;

namespace {

constexpr std::uint64_t range_bytes = 1000;

std::shared_ptr<const DatasetIndex> ranges(int count) {
  DatasetIndexBuilder builder;
  builder.add_file("a");
  for (int i = 0; i < count; ++i) builder.add_sample({static_cast<std::uint64_t>(i) * range_bytes, range_bytes, 0, 0});
  DatasetIndex::Facts facts;
  facts.format = "ranges";
  return std::move(builder).build(std::move(facts));
}

/// Storage that serves one read after another, each in the same time of a clock that nothing else moves.
class SerialEngine final : public FetchEngine {
 public:
  SerialEngine(ManualTiming& timing, double seconds, std::vector<SampleId> broken = {})
      : m_timing(timing), m_seconds(seconds), m_broken(std::move(broken)) {}

  Status submit(std::span<const FetchRequest> requests) override {
    for (const FetchRequest& request : requests) m_waiting.push_back(request);
    most_in_flight = std::max(most_in_flight, m_waiting.size());
    return {};
  }
  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override {
    if (m_waiting.empty()) {
      m_timing.sleep_until(deadline.at);
      return 0;
    }
    if (!m_cancelled) m_timing.advance(to_nanoseconds(m_seconds));
    const FetchRequest request = m_waiting.front();
    m_waiting.pop_front();
    if (m_cancelled) {
      completions[0] = {request.tag, request.sample, {StatusCode::cancelled, 0}, {}, {0}, m_timing.now(), 0};
      return 1;
    }
    samples.push_back(request.sample);
    completions[0] = {request.tag, request.sample, {}, std::span(m_bytes).first(request.extent.length), {0}, m_timing.now(), 0};
    if (std::ranges::count(m_broken, request.sample) > 0) completions[0].status = {StatusCode::not_found, ENOENT};
    return 1;
  }
  void release(std::span<const FetchBuffer> /*buffers*/) override {}
  void cancel() override { m_cancelled = true; }
  [[nodiscard]] std::size_t capacity() const override { return 64; }
  [[nodiscard]] std::size_t free_places() const override { return 64 - m_waiting.size(); }
  [[nodiscard]] Bytes requested() const override { return 0; }

  std::vector<SampleId> samples;
  std::size_t most_in_flight = 0;

 private:
  ManualTiming& m_timing;
  double m_seconds;
  std::vector<SampleId> m_broken;
  bool m_cancelled = false;
  std::deque<FetchRequest> m_waiting;
  std::vector<std::byte> m_bytes = std::vector<std::byte>(range_bytes);
};

}  // namespace

TEST_CASE("a point counts what arrives at the pace of storage, with as many reads in flight as asked for") {
  ManualTiming timing;
  SerialEngine engine(timing, 0.001);
  const auto index = ranges(70);
  const StoragePointRun run(engine, *index, 5, 1, {}, timing.timing(), 3);
  CHECK(run.bytes_per_s() == doctest::Approx(1'000'000));
  CHECK(engine.most_in_flight == 5);
  CHECK(engine.samples.front() == 3);
  CHECK(std::ranges::count(engine.samples, 69) > 1);  // and again from the first
  const std::vector<Stretch> stretches = run.stretches();
  REQUIRE(stretches.size() == 20);
  const double amount = std::accumulate(stretches.begin(), stretches.end(), 0.0, [](double sum, const Stretch& each) { return sum + each.amount; });
  CHECK(amount == doctest::Approx(750'000).epsilon(0.01));  // the first quarter is not counted
  for (const Stretch& each : stretches) CHECK(each.rate() == doctest::Approx(1'000'000).epsilon(0.05));
  CHECK(run.bytes() >= 1'000'000);
  CHECK(run.failed() == 0);
}

TEST_CASE("too few reads give no rate, and slow storage is given up") {
  ManualTiming timing;
  SerialEngine engine(timing, 0.5);
  const auto index = ranges(70);
  const StoragePointRun run(engine, *index, 2, 1, {}, timing.timing());
  CHECK(run.bytes_per_s() == 0);
  CHECK(run.stretches().empty());
  CHECK(to_seconds(timing.now()) < 5.1);
  const auto none = ranges(0);
  CHECK(StoragePointRun(engine, *none, 2, 1, {}, timing.timing()).bytes() == 0);
}

TEST_CASE("reads that fail are counted apart, and move no bytes") {
  ManualTiming timing;
  SerialEngine engine(timing, 0.001, {1, 3, 5, 7, 9});
  const auto index = ranges(10);
  const StoragePointRun run(engine, *index, 1, 1, {}, timing.timing());
  CHECK(run.bytes_per_s() == doctest::Approx(500'000).epsilon(0.01));
  CHECK(run.failed() >= 400);
}

TEST_CASE("a run that is asked to stop ends at once") {
  ManualTiming timing;
  SerialEngine engine(timing, 0.001);
  const auto index = ranges(10);
  std::stop_source source;
  source.request_stop();
  const StoragePointRun run(engine, *index, 1, 1, source.get_token(), timing.timing());
  CHECK(run.bytes() == 0);
}
