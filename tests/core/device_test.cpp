#include "core/device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.hpp"

using namespace dsanalyze;

namespace {

constexpr StorageDeviceSpec papers_ssd{530e6, 0, 32};
constexpr StorageDeviceSpec slow_start_ssd{530e6, 100'000, 32};
constexpr StorageDeviceSpec papers_hdd{150e6, 8'000'000, 1};

// `concurrency` clients, each of which asks for its next sample when it has the last one. Bytes per second between warm-up and end.
double closed_loop_rate(const StorageDeviceSpec& spec, Bytes bytes, int concurrency, int requests) {
  const auto state = std::make_unique<StorageDeviceState>();
  std::vector<Nanoseconds> free_at(static_cast<std::size_t>(concurrency), 0);
  const int warm_up = 1000;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  for (int i = 0; i < warm_up + requests; ++i) {
    const auto client = std::min_element(free_at.begin(), free_at.end());
    *client = storage_request_end(*state, spec, bytes, *client);
    end = std::max(end, *client);
    if (i + 1 == warm_up) start = end;
  }
  return static_cast<double>(bytes) * requests / to_seconds(end - start);
}

}  // namespace

TEST_CASE("an emulated disk reaches its closed-form rate within 0.1 % at every concurrency") {
  for (const StorageDeviceSpec& spec : {papers_ssd, slow_start_ssd, papers_hdd, StorageDeviceSpec{2e9, 1'000'000, 8}}) {
    for (const Bytes bytes : {Bytes{4096}, Bytes{113'959}, Bytes{8'914'000}}) {
      for (const int concurrency : {1, 2, 3, 8, 16, 64}) {
        CAPTURE(spec.bytes_per_second);
        CAPTURE(spec.latency);
        CAPTURE(bytes);
        CAPTURE(concurrency);
        const double expected = storage_device_rate(spec, static_cast<double>(bytes), concurrency);
        CHECK(closed_loop_rate(spec, bytes, concurrency, 10'000) == doctest::Approx(expected).epsilon(0.001));
      }
    }
  }
}

TEST_CASE("the papers' disk serves one request after the other, 8 ms and its bytes at 150 MB/s each") {
  const auto state = std::make_unique<StorageDeviceState>();
  const Nanoseconds service = 8'000'000 + 1'000'000;
  CHECK(storage_request_end(*state, papers_hdd, 150'000, 500) == 500 + service);
  CHECK(storage_request_end(*state, papers_hdd, 150'000, 500) == 500 + 2 * service);
  CHECK(storage_request_end(*state, papers_hdd, 150'000, 1'000'000'000) == 1'000'000'000 + service);
  // [DS-Analyzer, Table 2]: 15 to 50 MB/s of random reads.
  const double rate = storage_device_rate(papers_hdd, 150e3, 16);
  CHECK(rate > 15e6);
  CHECK(rate < 50e6);
}

TEST_CASE("a request keeps its place in the queue until its transfer is done, not only until it could have been") {
  const auto state = std::make_unique<StorageDeviceState>();
  constexpr StorageDeviceSpec one_byte_a_nanosecond{1e9, 100, 2};
  CHECK(storage_request_end(*state, one_byte_a_nanosecond, 50, 0) == 150);
  CHECK(storage_request_end(*state, one_byte_a_nanosecond, 10, 0) == 160);  // ready at 100, but the path is taken until 150
  CHECK(storage_request_end(*state, one_byte_a_nanosecond, 0, 0) == 250);   // the first place is free at 150
}

TEST_CASE("eight users of one emulated disk together get its bandwidth once") {
  CHECK(closed_loop_rate(papers_ssd, 150'000, 8 * 16, 10'000) == doctest::Approx(530e6).epsilon(0.001));
}

TEST_CASE("k lanes serve k requests at once and the next one after the first of them") {
  std::array<DeviceLane, 3> lanes;
  CHECK(reserve_earliest(lanes, 0, 300, 0) == 300);
  CHECK(reserve_earliest(lanes, 0, 100, 0) == 100);
  CHECK(reserve_earliest(lanes, 0, 200, 0) == 200);
  CHECK(reserve_earliest(lanes, 0, 50, 0) == 150);
  CHECK(reserve_earliest(lanes, 1000, 50, 1000) == 1050);
}

TEST_CASE("lanes and a disk that one thread keeps to itself end every request when shared ones do") {
  RandomStream random(11);
  std::array<DeviceLane, 3> shared;
  std::array<OwnLane, 3> own;
  const auto shared_disk = std::make_unique<StorageDeviceState>();
  const auto own_disk = std::make_unique<StorageDeviceLanes<OwnLane>>();
  constexpr StorageDeviceSpec slow_at_times{1e6, 90'000, 4};
  Nanoseconds now = 0;
  bool same = true;
  for (int i = 0; i < 20'000; ++i) {
    now += static_cast<Nanoseconds>(random.below(300'000));
    const auto service = static_cast<Nanoseconds>(random.below(1'000'000));
    const Bytes bytes = i % 1000 == 0 ? Bytes{400'000'000} : Bytes{random.below(500)};  // some wait for minutes: the backlog grows beyond belief
    same = same && reserve(shared[0], now, service, now) == reserve(own[0], now, service, now);
    same = same && reserve_earliest(shared, now, service, now) == reserve_earliest(own, now, service, now);
    same = same && storage_request_end(*shared_disk, slow_at_times, bytes, now) == storage_request_end(*own_disk, slow_at_times, bytes, now);
  }
  CHECK(same);
}

TEST_CASE("garbage in a lane is refused and the device goes on from now") {
  const Nanoseconds now = 5 * nanoseconds_per_second;
  for (const Nanoseconds garbage : {std::numeric_limits<Nanoseconds>::max(), now + max_backlog + 1, Nanoseconds{1} << 62}) {
    CAPTURE(garbage);
    DeviceLane lane;
    lane.next_free = garbage;
    CHECK(reserve(lane, now, 1000, now) == now + 1000);
    CHECK(reserve(lane, now, 1000, now) == now + 2000);

    std::array<DeviceLane, 2> lanes;
    lanes[0].next_free = garbage;
    lanes[1].next_free = garbage;
    CHECK(reserve_earliest(lanes, now, 1000, now) == now + 1000);
    CHECK(reserve_earliest(lanes, now, 1000, now) == now + 1000);
    CHECK(reserve_earliest(lanes, now, 1000, now) == now + 2000);

    const auto disk = std::make_unique<StorageDeviceState>();
    disk->transfer.next_free = garbage;
    for (DeviceLane& each : disk->lanes) each.next_free = garbage;
    CHECK(storage_request_end(*disk, papers_hdd, 150'000, now) == now + 9'000'000);
    CHECK(storage_request_end(*disk, papers_hdd, 150'000, now) == now + 18'000'000);
  }
}

TEST_CASE("garbage in the past, and a backlog that is long but possible, change nothing") {
  const Nanoseconds now = nanoseconds_per_second;
  DeviceLane lane;
  lane.next_free = std::numeric_limits<Nanoseconds>::min();
  CHECK(reserve(lane, now, 1000, now) == now + 1000);
  lane.next_free = now + max_backlog;
  CHECK(reserve(lane, now, 1000, now) == now + max_backlog + 1000);
}

TEST_CASE("two threads that reserve at once lose and double no service time") {
  constexpr int each = 50'000;
  constexpr Nanoseconds service = 7;
  std::array<DeviceLane, 1> lane;
  std::array<std::vector<Nanoseconds>, 2> ends;
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (std::vector<Nanoseconds>& own : ends) {
      own.reserve(each);
      threads.emplace_back([&own, &lane] {
        for (int i = 0; i < each; ++i) own.push_back(i % 2 == 0 ? reserve(lane[0], 0, service, 0) : reserve_earliest(lane, 0, service, 0));
      });
    }
  }
  std::vector<Nanoseconds> all = ends[0];
  all.insert(all.end(), ends[1].begin(), ends[1].end());
  std::sort(all.begin(), all.end());
  // No two reservations overlap and none leaves a gap: their ends are 7, 14, 21, ...
  bool exact = true;
  for (std::size_t i = 0; i < all.size(); ++i) exact = exact && all[i] == static_cast<Nanoseconds>(i + 1) * service;
  CHECK(exact);
  CHECK(lane[0].next_free == Nanoseconds{2} * each * service);
}

TEST_CASE("two threads on one emulated disk never get more than its bandwidth") {
  constexpr int each = 20'000;
  constexpr Bytes bytes = 150'000;
  const auto state = std::make_unique<StorageDeviceState>();
  std::array<Nanoseconds, 2> last{};
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (Nanoseconds& own : last) {
      threads.emplace_back([&own, &state] {
        for (int i = 0; i < each; ++i) own = std::max(own, storage_request_end(*state, papers_ssd, bytes, 0));
      });
    }
  }
  const double rate = 2.0 * each * bytes / to_seconds(std::max(last[0], last[1]));
  CHECK(rate <= 530e6 * 1.001);
}

TEST_CASE("an accelerator that starved does not catch up: each step ends its full time after its batch was ready") {
  RandomStream random(7);
  constexpr Nanoseconds step = 2'000'000;
  Nanoseconds ready = 0;
  Nanoseconds end = 0;
  Nanoseconds idle = 0;
  constexpr int steps = 5000;
  for (int k = 0; k < steps; ++k) {
    // A stall now and then, of up to fifty steps; batches come twice as fast as they are used otherwise.
    ready += step / 2 + (random.below(100) == 0 ? static_cast<Nanoseconds>(random.below(50)) * step : 0);
    const Nanoseconds previous = end;
    end = accelerator_step_end(previous, ready, step);
    CHECK(end >= ready + step);
    CHECK(end >= previous + step);
    CHECK((end == ready + step || end == previous + step));
    idle += std::max<Nanoseconds>(0, ready - previous);
  }
  // All the time is either work or waiting for data.
  CHECK(end == steps * step + idle);
  CHECK(idle > 0);
}

TEST_CASE("in lockstep the slowest batch of a step holds all accelerators") {
  constexpr Nanoseconds step = 1000;
  constexpr std::array<Nanoseconds, 4> ready = {100, 5000, 300, 200};
  const Nanoseconds latest = *std::max_element(ready.begin(), ready.end());
  CHECK(accelerator_step_end(0, latest, step) == 6000);
  CHECK(accelerator_step_end(6000, 200, step) == 7000);
}
