#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "core/device.hpp"
#include "epoch_simulator.hpp"

namespace dsanalyze::simulation {

constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

/// What is due when, the earliest first. Memory is taken once.
template <typename What>
class EventHeap {
 public:
  struct Event {
    Nanoseconds at;
    What what;
  };
  explicit EventHeap(std::size_t most) { m_events.reserve(most); }
  [[nodiscard]] Nanoseconds next() const { return m_events.empty() ? never : m_events.front().at; }
  [[nodiscard]] const What& front() const { return m_events.front().what; }

  void push(Nanoseconds at, const What& what) {
    m_events.push_back({at, what});
    std::size_t place = m_events.size() - 1;
    for (; place > 0 && m_events[(place - 1) / 2].at > at; place = (place - 1) / 2) m_events[place] = m_events[(place - 1) / 2];
    m_events[place] = {at, what};
  }
  void pop() {
    const Event last = m_events.back();
    m_events.pop_back();
    if (!m_events.empty()) replace_front(last.at, last.what);
  }
  void replace_front(Nanoseconds at, const What& what) {
    const std::size_t count = m_events.size();
    std::size_t place = 0;
    for (std::size_t below = 1; below < count; below = 2 * place + 1) {
      if (below + 1 < count && m_events[below + 1].at < m_events[below].at) ++below;
      if (m_events[below].at >= at) break;
      m_events[place] = m_events[below];
      place = below;
    }
    m_events[place] = {at, what};
  }

 private:
  std::vector<Event> m_events;
};

/// The emulated disk, or places that requests keep for their measured time; in front of it the engine's limit of requests in flight.
class StorageStage {
 public:
  StorageStage(const SimulatedStorage& storage, std::uint64_t seed);
  /// When a request that is submitted now ends. Requests come in order of time.
  Nanoseconds request_end(Bytes bytes, Nanoseconds now);
  /// Time that the transfer path was busy, or the places on average.
  [[nodiscard]] double busy_seconds() const;

 private:
  Nanoseconds end_when_begun(Bytes bytes, Nanoseconds begin);

  const SimulatedStorage& m_storage;
  RandomStream m_random;
  EventHeap<char> m_under_way;  // when each of the engine's places is free
  StorageDeviceLanes<OwnLane> m_device;
  double m_busy_seconds = 0;
};

/// Cores that workers prepare samples on, and the memory's path that copies out of the cache share.
class PrepStage {
 public:
  PrepStage(const SimulatedPrep& prep, double copy_bytes_per_s, std::uint64_t seed);
  /// When a worker that begins a sample now has done with it. `bytes_in_cache`: 0 for a miss.
  Nanoseconds sample_end(Nanoseconds ready, Bytes bytes_in_cache, Nanoseconds now);
  [[nodiscard]] double busy_seconds() const { return to_seconds(m_busy); }  ///< of all cores
  [[nodiscard]] std::size_t cores() const { return m_cores.size(); }

 private:
  Nanoseconds service();

  SimulatedPrep::Kind m_kind;
  ServiceTimes m_service;
  Nanoseconds m_constant_service;
  double m_copy_bytes_per_s;
  bool m_own_core;  // each worker has one
  RandomStream m_random;
  OwnLane m_copies;
  std::vector<OwnLane> m_cores;
  Nanoseconds m_busy = 0;
};

/// A batch on its way through the accelerators.
struct TrainedBatch {
  std::uint64_t epoch = 0;
  std::uint64_t place = 0;  ///< of its step in the epoch
  std::uint32_t samples = 0;
  std::uint32_t slices = 1;
  Nanoseconds ready = 0;
  Nanoseconds end = 0;
  Nanoseconds stall = 0;
};

/// The emulated trainer (src/trainer/emulated_trainer.cpp); without a rate, the null trainer.
class AcceleratorStage {
 public:
  explicit AcceleratorStage(const SimulatedAccelerators& accelerators);
  [[nodiscard]] bool wants_batch() const;
  /// Starts it, or gathers it for its step. Batches that started are appended to `started`.
  void submit(const TrainedBatch& batch, std::vector<TrainedBatch>& started);
  [[nodiscard]] bool runs() const { return !m_ends.empty(); }
  [[nodiscard]] Nanoseconds first_end() const;
  /// Gives up those that have ended; their number.
  std::size_t reap(Nanoseconds now);
  [[nodiscard]] double busy_seconds() const { return to_seconds(m_busy); }  ///< of all accelerators
  [[nodiscard]] std::uint32_t count() const { return m_count; }

 private:
  Nanoseconds step_time(std::uint32_t samples) const;
  void start(TrainedBatch& batch, Nanoseconds begin_not_before, Nanoseconds step, std::size_t lane);

  double m_samples_per_s;
  StepMode m_step;
  std::uint32_t m_count;
  std::vector<Nanoseconds> m_last_ends;  // of each accelerator; in lockstep one stands for all
  std::vector<Nanoseconds> m_ends;       // of batches in flight
  std::vector<TrainedBatch> m_gathered;
  Nanoseconds m_busy = 0;
};

}  // namespace dsanalyze::simulation
