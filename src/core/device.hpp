#pragma once

#include <atomic>
#include <cstdint>
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

/// Reserves `service` on one lane: end = max(next_free, ready) + service. Returns the end. `now` only serves the sanity check.
Nanoseconds reserve(DeviceLane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now);
/// The same on whichever of the lanes is free first (k servers, one queue).
Nanoseconds reserve_earliest(std::span<DeviceLane> lanes, Nanoseconds ready, Nanoseconds service, Nanoseconds now);

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

/// Shared state of an emulated disk: the transfer path and one lane per queue place. Relocatable.
struct StorageDeviceState {
  static constexpr std::uint32_t max_queue_depth = 256;
  DeviceLane transfer;
  DeviceLane lanes[max_queue_depth];
};

/// Reserves one request that arrives at `now`: it takes the first free lane, pays the latency, then its transfer in turn. Returns its end.
/// With queue depth 1: end = max(now, lane) + latency + bytes / bandwidth (a disk arm). Many lanes: bandwidth-bound once latencies overlap.
Nanoseconds storage_request_end(StorageDeviceState& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now);

/// The rate that the recurrence reaches in the long run with `concurrency` requests of `bytes` under way, bytes/s:
/// min(bandwidth, min(concurrency, queue_depth) x bytes / (latency + bytes / bandwidth)).
double storage_device_rate(const StorageDeviceSpec& spec, double bytes, double concurrency);

}  // namespace dsanalyze
