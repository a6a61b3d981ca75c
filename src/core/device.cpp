#include "device.hpp"

#include <algorithm>

namespace dsanalyze {
namespace {

// Capped, as a longer reservation would itself be taken for garbage.
Nanoseconds transfer_time(const StorageDeviceSpec& spec, Bytes bytes) {
  const double seconds = static_cast<double>(bytes) / spec.bytes_per_second;
  return std::min(max_backlog, to_nanoseconds(std::min(seconds, to_seconds(max_backlog))));
}

template <typename Lane>
Nanoseconds request_end(StorageDeviceLanes<Lane>& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now) {
  const std::uint32_t depth = std::clamp(spec.queue_depth, 1U, StorageDeviceState::max_queue_depth);
  const Nanoseconds transfer = transfer_time(spec, bytes);
  // The lane is taken for the least that the request needs, and for longer once its turn in the transfer path is known.
  const auto place = lanes::reserve_earliest(std::span(state.lanes, depth), now, spec.latency + transfer, now);
  const Nanoseconds end = lanes::reserve(state.transfer, place.start + spec.latency, transfer, now).end;
  lanes::raise_to(*place.lane, end);
  return end;
}

}  // namespace

Nanoseconds reserve(DeviceLane& lane, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  return lanes::reserve(lane, ready, service, now).end;
}

Nanoseconds reserve_earliest(std::span<DeviceLane> of, Nanoseconds ready, Nanoseconds service, Nanoseconds now) {
  return lanes::reserve_earliest(of, ready, service, now).end;
}

Nanoseconds storage_request_end(StorageDeviceState& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now) {
  return request_end(state, spec, bytes, now);
}

Nanoseconds storage_request_end(StorageDeviceLanes<OwnLane>& state, const StorageDeviceSpec& spec, Bytes bytes, Nanoseconds now) {
  return request_end(state, spec, bytes, now);
}

double storage_device_rate(const StorageDeviceSpec& spec, double bytes, double concurrency) {
  const double overlapping = std::min(concurrency, static_cast<double>(std::max(spec.queue_depth, 1U)));
  const double request_seconds = to_seconds(spec.latency) + bytes / spec.bytes_per_second;
  if (request_seconds <= 0) return spec.bytes_per_second;
  return std::min(spec.bytes_per_second, overlapping * bytes / request_seconds);
}

}  // namespace dsanalyze
