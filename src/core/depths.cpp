#include "depths.hpp"

#include <algorithm>

namespace dsanalyze {
namespace {

constexpr int least_prefetch = 4;
constexpr std::size_t most_waiting_reads = 512;
constexpr double min_in_flight = 32;
constexpr double max_in_flight = 512;

}  // namespace

int prefetch_batches(const ProfileSettings& settings) { return std::max(least_prefetch, 2 * settings.accelerators); }

int prefetch_batches(const ProfileSettings& settings, double batch_bytes) {
  constexpr double most_bytes = 256 * 1024.0 * 1024.0;
  constexpr double least = 2;  // one that is ready, and one that is being prepared
  const int most = prefetch_batches(settings);
  return batch_bytes > 0 ? static_cast<int>(std::clamp(most_bytes / batch_bytes, least, static_cast<double>(most))) : most;
}

std::size_t batch_slots(const ProfileSettings& settings) {
  const auto jobs = static_cast<std::size_t>(settings.jobs);
  const auto prefetch = static_cast<std::size_t>(prefetch_batches(settings));
  if (settings.share == JobSharing::dependent) return jobs * (2 + prefetch);
  if (settings.share != JobSharing::none) return 2 * jobs + prefetch;
  return jobs * (prefetch + static_cast<std::size_t>(settings.accelerators));
}

std::uint32_t dependent_in_flight(double fetch_concurrency, double workers) {
  return static_cast<std::uint32_t>(std::clamp(2 * fetch_concurrency + 4 * workers, min_in_flight, max_in_flight));
}

int preparing_processes(const ProfileSettings& settings) {
  return settings.share != JobSharing::none && settings.producers == Producers::coordinator ? 1 : settings.jobs;
}

int workers_of_each(const ProfileSettings& settings) { return std::max(1, settings.workers / preparing_processes(settings)); }

std::size_t fetch_places(const ProfileSettings& settings) {
  const auto depth = static_cast<std::size_t>(settings.fetch_concurrency);
  const auto workers = static_cast<std::size_t>(settings.workers);
  // A read keeps its place until it is prepared, and behind a batch's hits that takes a while: enough places that storage does not idle meanwhile.
  std::size_t places = 2 * depth + 2 * workers + std::min(static_cast<std::size_t>(settings.batch_size), most_waiting_reads);
  if (settings.storage == Seam::emulated) places = std::max(places, 2 * static_cast<std::size_t>(settings.storage_queue_depth) + 2 * workers);
  const OrderSpec order = order_spec(settings);
  if (order.buffers())
    places += order.shuffle_buffer + static_cast<std::size_t>(settings.batch_size) * static_cast<std::size_t>(settings.accelerators);
  return places;
}

OrderSpec order_spec(const ProfileSettings& settings) {
  return {settings.order, static_cast<std::uint32_t>(settings.shuffle_buffer), 0, 1, static_cast<std::uint32_t>(settings.readers)};
}

StorageDeviceSpec storage_device(const ProfileSettings& settings) {
  return {settings.storage_bytes_per_s / settings.scale, to_nanoseconds(settings.storage_latency_seconds),
          static_cast<std::uint32_t>(settings.storage_queue_depth)};
}

}  // namespace dsanalyze
