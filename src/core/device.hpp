#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>

#include "base/clock.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

// Emulated devices as pure recurrences: time is an argument, state is plain memory that the caller gives (private, or a segment that many processes
// map). Reservations are made by compare-and-swap on next-free times: no lock, so a process that dies mid-way costs one reservation at most. A state
// whose next-free time lies absurdly far ahead (more than max_backlog) was written by a broken process: it is refused and reset to now.

/// Next-free times further ahead of now than this are taken for garbage.
constexpr Nanoseconds max_backlog = 600 * nanoseconds_per_second;

/// A next-free time alone in its cache line.
struct alignas(64) DeviceLane {
  std::atomic<Nanoseconds> next_free{0};
};
static_assert(std::atomic<Nanoseconds>::is_always_lock_free);

/// A next-free time that one thread alone knows, as a simulator has it: the same recurrences without a cache line and atomic operations for each.
struct OwnLane {
  Nanoseconds next_free = 0;
};

/// The recurrences, for lanes of both kinds.
namespace lanes {

inline Nanoseconds next_free(const DeviceLane& lane) { return lane.next_free.load(std::memory_order_acquire); }
inline Nanoseconds next_free(const OwnLane& lane) { return lane.next_free; }

/// Writes `next` if the lane still says what was `seen`; what it says otherwise is seen then.
inline bool replace(DeviceLane& lane, Nanoseconds& seen, Nanoseconds next) {
  return lane.next_free.compare_exchange_strong(seen, next, std::memory_order_acq_rel, std::memory_order_acquire);
}
inline bool replace(OwnLane& lane, Nanoseconds&, Nanoseconds next) {
  lane.next_free = next;
  return true;
}

/// What a lane says, or `now` where it says something that no working process writes.
constexpr Nanoseconds believable(Nanoseconds next_free, Nanoseconds now) { return next_free > now + max_backlog ? now : next_free; }

template <typename Lane>
struct Reservation {
  Lane* lane;
  Nanoseconds start;
  Nanoseconds end;
};

template <typename Lane>
Reservation<Lane> reserve(Lane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  Nanoseconds seen = next_free(lane);
  while (true) {
    const Nanoseconds start = std::max(believable(seen, now), ready);
    if (replace(lane, seen, start + service)) return {&lane, start, start + service};
  }
}

template <typename Lane>
Reservation<Lane> reserve_earliest(std::span<Lane> lanes, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  while (true) {
    Lane* earliest = &lanes.front();
    Nanoseconds seen = 0;
    Nanoseconds earliest_free = std::numeric_limits<Nanoseconds>::max();
    for (Lane& lane : lanes) {
      const Nanoseconds says = next_free(lane);
      const Nanoseconds free = believable(says, now);
      if (free >= earliest_free) continue;
      earliest = &lane;
      seen = says;
      earliest_free = free;
      if (earliest_free <= ready) break;  // free already: no other lane can start sooner
    }
    const Nanoseconds start = std::max(earliest_free, ready);
    if (replace(*earliest, seen, start + service)) return {earliest, start, start + service};
  }
}

template <typename Lane>
void raise_to(Lane& lane, Nanoseconds end) {
  Nanoseconds seen = next_free(lane);
  while (seen < end && !replace(lane, seen, end)) continue;
}

}  // namespace lanes

/// Reserves `service` on one lane: end = max(next_free, ready) + service. Returns the end. `now` only serves the sanity check.
Nanoseconds reserve(DeviceLane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now);
inline Nanoseconds reserve(OwnLane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  return lanes::reserve(lane, ready, service, now).end;
}
/// The same on whichever of the lanes is free first (k servers, one queue).
Nanoseconds reserve_earliest(std::span<DeviceLane> lanes, Nanoseconds ready, Nanoseconds service, Nanoseconds now);
inline Nanoseconds reserve_earliest(std::span<OwnLane> of, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  return lanes::reserve_earliest(of, ready, service, now).end;
}

/// The step recurrence of an accelerator: end(k) = max(end(k-1), ready(k)) + t, never a fixed grid that would let it catch up.
/// In lockstep, ready(k) is the latest of the step's batches.
constexpr Nanoseconds accelerator_step_end(Nanoseconds previous_end, Nanoseconds ready, Nanoseconds step) {
  return (previous_end > ready ? previous_end : ready) + step;
}

/// What an emulated disk is: `queue_depth` requests overlap their fixed `latency`; their transfers share `bytes_per_second`.
struct StorageDeviceSpec {
  double bytes_per_second = 0;
  Nanoseconds latency = 0;
  std::uint32_t queue_depth = 1;
};

/// State of an emulated disk: the transfer path and one lane per queue place. Relocatable.
template <typename Lane>
struct StorageDeviceLanes {
  static constexpr std::uint32_t max_queue_depth = 256;
  Lane transfer;
  Lane lanes[max_queue_depth];
};
using StorageDeviceState = StorageDeviceLanes<DeviceLane>;  ///< that threads and processes share

/// Reserves one request that arrives at `now`: it takes the first free lane, pays the latency, then its transfer in turn. Returns its end.
/// With queue depth 1: end = max(now, lane) + latency + bytes / bandwidth (a disk arm). Many lanes: bandwidth-bound once latencies overlap.
Nanoseconds storage_request_end(StorageDeviceState& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now);
Nanoseconds storage_request_end(StorageDeviceLanes<OwnLane>& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now);

/// The rate that the recurrence reaches in the long run with `concurrency` requests of `bytes` in flight, bytes/s:
/// min(bandwidth, min(concurrency, queue_depth) x bytes / (latency + bytes / bandwidth)).
double storage_device_rate(const StorageDeviceSpec& spec, double bytes, double concurrency);

}  // namespace dsanalyze
