#include "device.hpp"

#include <algorithm>
#include <limits>

namespace dsanalyze {
namespace {

// What a lane says, or `now` where it says something that no working process writes.
Nanoseconds believable(Nanoseconds next_free, Nanoseconds now) { return next_free > now + max_backlog ? now : next_free; }

struct Reservation {
  DeviceLane* lane;
  Nanoseconds start;
  Nanoseconds end;
};

Reservation reserve_on(DeviceLane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  Nanoseconds seen = lane.next_free.load(std::memory_order_acquire);
  while (true) {
    const Nanoseconds start = std::max(believable(seen, now), ready);
    if (lane.next_free.compare_exchange_weak(seen, start + service, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return {&lane, start, start + service};
    }
  }
}

Reservation reserve_on_earliest(std::span<DeviceLane> lanes, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  while (true) {
    DeviceLane* earliest = &lanes.front();
    Nanoseconds seen = 0;
    Nanoseconds earliest_free = std::numeric_limits<Nanoseconds>::max();
    for (DeviceLane& lane : lanes) {
      const Nanoseconds next_free = lane.next_free.load(std::memory_order_acquire);
      if (believable(next_free, now) >= earliest_free) continue;
      earliest = &lane;
      seen = next_free;
      earliest_free = believable(next_free, now);
      if (earliest_free <= ready) break;  // free already: no other lane can start sooner
    }
    const Nanoseconds start = std::max(earliest_free, ready);
    if (earliest->next_free.compare_exchange_strong(seen, start + service, std::memory_order_acq_rel)) return {earliest, start, start + service};
  }
}

void raise_to(DeviceLane& lane, Nanoseconds next_free) {
  Nanoseconds seen = lane.next_free.load(std::memory_order_acquire);
  while (seen < next_free && !lane.next_free.compare_exchange_weak(seen, next_free, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
}

// Capped, as a longer reservation would itself be taken for garbage.
Nanoseconds transfer_time(const StorageDeviceSpec& spec, Bytes bytes) {
  const double seconds = static_cast<double>(bytes) / spec.bytes_per_second;
  return std::min(max_backlog, to_nanoseconds(std::min(seconds, to_seconds(max_backlog))));
}

}  // namespace

Nanoseconds reserve(DeviceLane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now) { return reserve_on(lane, ready, service, now).end; }

Nanoseconds reserve_earliest(std::span<DeviceLane> lanes, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  return reserve_on_earliest(lanes, ready, service, now).end;
}

Nanoseconds storage_request_end(StorageDeviceState& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now) {
  const std::uint32_t depth = std::clamp(spec.queue_depth, 1U, StorageDeviceState::max_queue_depth);
  const Nanoseconds transfer = transfer_time(spec, bytes);
  // The lane is taken for the least that the request needs, and for longer once its turn in the transfer path is known.
  const Reservation place = reserve_on_earliest({state.lanes, depth}, now, spec.latency + transfer, now);
  const Nanoseconds end = reserve(state.transfer, place.start + spec.latency, transfer, now);
  raise_to(*place.lane, end);
  return end;
}

double storage_device_rate(const StorageDeviceSpec& spec, double bytes, double concurrency) {
  const double overlapping = std::min(concurrency, static_cast<double>(std::max(spec.queue_depth, 1U)));
  const double request_seconds = to_seconds(spec.latency) + bytes / spec.bytes_per_second;
  if (request_seconds <= 0) return spec.bytes_per_second;
  return std::min(spec.bytes_per_second, overlapping * bytes / request_seconds);
}

}  // namespace dsanalyze
