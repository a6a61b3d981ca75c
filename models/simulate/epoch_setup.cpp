#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/error.hpp"
#include "epoch_simulator.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t most_batches = 100'000'000;
constexpr std::uint32_t most_lanes = 65'536;
constexpr std::uint32_t most_slots = 1'000'000;

[[noreturn]] void refuse(std::string_view field, const std::string& what) { throw UsageError(fmt::format("epoch simulator: {}: {}", field, what)); }

template <typename Integer>
void require_count(std::string_view field, Integer value, Integer least, Integer most) {
  if (value < least || value > most) refuse(field, fmt::format("found {}, expected an integer in [{}, {}]", value, least, most));
}

// Written so that no number fails it.
void require_number(std::string_view field, double value, double most) {
  if (!(value >= 0 && value <= most)) refuse(field, fmt::format("found {}, expected a number in [0, {:g}]", value, most));
}

void check_storage(const SimulatedStorage& storage) {
  require_count("storage.fetch_places", storage.fetch_places, 1U, most_slots);
  require_count("storage.concurrency", storage.concurrency, storage.kind == SimulatedStorage::Kind::measured ? 1U : 0U, most_lanes);
  if (storage.kind != SimulatedStorage::Kind::device) return;
  const StorageDeviceSpec& device = storage.device;
  if (!(device.bytes_per_second > 0) || !std::isfinite(device.bytes_per_second)) {
    refuse("storage.device.bytes_per_second", fmt::format("found {}, expected a number above 0", device.bytes_per_second));
  }
  require_count<Nanoseconds>("storage.device.latency", device.latency, 0, max_backlog);
  require_count("storage.device.queue_depth", device.queue_depth, 1U, StorageDeviceState::max_queue_depth);
}

void check_samples(const EpochSetup& setup) {
  require_count("samples", setup.samples, 1U, UINT32_MAX - 1);
  if (!setup.records.empty() && setup.records.size() != setup.samples) {
    refuse("records", fmt::format("found {}, expected one for each of {} samples", setup.records.size(), setup.samples));
  }
  if (setup.order.nodes == 0 || setup.order.node >= setup.order.nodes) {
    refuse("order.node", fmt::format("found node {} of {}, expected it below their number", setup.order.node, setup.order.nodes));
  }
  require_count("order.readers", setup.order.readers, 1U, most_lanes);
  require_count("order.shuffle_buffer", setup.order.shuffle_buffer, 0U, UINT32_MAX / 2);
}

}  // namespace

void EpochSetup::validate() const {
  check_samples(*this);
  require_count("batch_size", batch_size, 1U, most_slots);
  require_count("prefetch_batches", prefetch_batches, 1U, most_slots);
  require_count("accelerators.count", accelerators.count, 1U, 4096U);
  require_count<std::uint64_t>("epochs", epochs, 1, most_batches);
  require_count<std::uint64_t>("epochs", epochs * (samples / batch_size + 1), 1, most_batches);
  check_storage(storage);
  if (order.buffers() && storage.fetch_places <= order.shuffle_buffer + std::uint64_t{batch_size} * accelerators.count) {
    refuse("storage.fetch_places", fmt::format("found {}, expected more than a shuffle buffer of {} and a step of {} samples", storage.fetch_places,
                                               order.shuffle_buffer, std::uint64_t{batch_size} * accelerators.count));
  }
  if (cache.kind == CacheKind::page) refuse("cache.kind", "the kernel's page cache is not simulated; use page-model:linux or page-model:random");
  require_number("cache.fraction", cache.fraction, 1);
  require_number("cache.least_priority", cache.least_priority, 1e30);
  require_number("cache.storage_cost", cache.storage_cost.seconds_per_request, 1e9);
  require_number("cache.storage_cost", cache.storage_cost.seconds_per_byte, 1e9);
  require_number("cache.copy_bytes_per_s", cache.copy_bytes_per_s, 1e18);
  require_count("prep.workers", prep.workers, 1U, most_lanes);
  require_count("prep.cores", prep.cores, 0U, most_lanes);
  require_number("accelerators.samples_per_s", accelerators.samples_per_s, 1e12);
  if (accelerators.samples_per_s > 0 && batch_size / accelerators.samples_per_s > to_seconds(max_backlog)) {
    refuse("accelerators.samples_per_s",
           fmt::format("found {}, with which a step takes longer than {} s", accelerators.samples_per_s, to_seconds(max_backlog)));
  }
}

}  // namespace dsanalyze
