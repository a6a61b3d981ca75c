#include "simulator_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.hpp"

namespace dsanalyze::bench {
namespace {

constexpr double mean_bytes = 10'000;  // small, so that the real cache of a configuration takes little memory
constexpr double epoch_seconds = 1.0;  // about
constexpr double close_within = 0.10;

class Draws {
 public:
  explicit Draws(std::uint64_t key) : m_random(key) {}
  [[nodiscard]] double between(double low, double high) { return m_random.uniform(low, high); }
  [[nodiscard]] double log_between(double low, double high) { return low * std::pow(high / low, m_random.uniform()); }
  [[nodiscard]] std::uint32_t integer(std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(m_random.below(most - least + 1));
  }
  [[nodiscard]] bool chance(double probability) { return m_random.uniform() < probability; }
  template <typename Value, std::size_t count>
  [[nodiscard]] Value one_of(const std::array<Value, count>& values) {
    return values[m_random.below(count)];
  }
  [[nodiscard]] double normal() { return m_random.normal(); }

 private:
  RandomStream m_random;
};

std::shared_ptr<const DatasetIndex> draw_index(Draws& draws, std::uint32_t samples, std::uint32_t samples_per_shard) {
  const double deviation = draws.chance(0.3) ? 0 : draws.between(0.2, 0.8);
  DatasetIndexBuilder builder;
  IndexRecord record;
  for (std::uint32_t i = 0; i < samples; ++i) {
    if (i % samples_per_shard == 0) record = {0, 0, builder.add_file(fmt::format("shard-{}", i / samples_per_shard)), 0};
    const double bytes = mean_bytes * std::exp(deviation * draws.normal() - deviation * deviation / 2);
    record.length = static_cast<std::uint64_t>(std::llround(std::clamp(bytes, 100.0, 20 * mean_bytes)));
    builder.add_sample(record);
    record.offset += record.length;
  }
  DatasetIndex::Facts facts;
  facts.root = "emulated:cases";
  facts.format = "emulated";
  return std::move(builder).build(std::move(facts));
}

OrderSpec draw_order(Draws& draws) {
  OrderSpec order;
  if (draws.chance(0.6)) return order;
  order.kind = draws.chance(0.5) ? OrderKind::sequential : OrderKind::shards;
  if (order.kind == OrderKind::shards) order.readers = draws.integer(1, 4);
  if (draws.chance(0.6)) order.shuffle_buffer = draws.integer(16, 256);
  return order;
}

SimulatedCache draw_cache(Draws& draws) {
  SimulatedCache cache;
  cache.kind = draws.one_of<CacheKind>(std::array{CacheKind::none, CacheKind::minio, CacheKind::minio, CacheKind::minio, CacheKind::lru,
                                                  CacheKind::page_model_random, CacheKind::page_model_linux});
  if (cache.kind != CacheKind::none) cache.fraction = draws.chance(0.1) ? draws.integer(0, 1) : draws.between(0, 1);
  return cache;
}

/// A disk that serves `rate` mean samples/s at its queue depth: bound by its transfers, or by its latency.
StorageDeviceSpec draw_disk(Draws& draws, double rate) {
  StorageDeviceSpec disk;
  disk.queue_depth = draws.one_of<std::uint32_t>(std::array<std::uint32_t, 6>{1, 2, 4, 8, 16, 32});
  const double at_full_depth = disk.queue_depth / rate;  // of one request
  double transfer = 1 / rate;
  double latency = draws.between(0, 0.8) * (at_full_depth - transfer);
  if (draws.chance(0.4)) {
    transfer /= draws.between(1.5, 4);
    latency = at_full_depth - transfer;
  }
  disk.bytes_per_second = mean_bytes / transfer;
  disk.latency = to_nanoseconds(latency);
  return disk;
}

std::uint32_t draw_places(Draws& draws, const EpochSetup& setup) {
  const std::uint32_t workers = setup.prep.workers;
  const std::uint32_t depth = setup.storage.device.queue_depth;
  // As the profiler has it (fetch_places() of src/profile/pipeline.cpp), at some fetch concurrency; or anything.
  const std::uint32_t concurrency = draws.one_of(std::array<std::uint32_t, 4>{1, 4, 16, 32});
  std::uint32_t places = std::max(2 * concurrency + 2 * workers + setup.batch_size, 2 * depth + 2 * workers);
  if (draws.chance(0.25)) places = draws.integer(std::max(workers, depth / 2 + 1), 3 * (workers + depth) + setup.batch_size);
  if (setup.order.buffers()) places += setup.order.shuffle_buffer + setup.batch_size * setup.accelerators.count;
  return places;
}

/// What share of the bytes the cache saves in steady state. Takes no simulated time.
double hit_share(const EpochSetup& setup, Bytes total) {
  EpochSetup untimed = setup;
  untimed.storage.kind = SimulatedStorage::Kind::instant;
  untimed.prep.seconds_per_sample = {};
  untimed.accelerators.samples_per_s = 0;
  return 1 - static_cast<double>(simulate_epochs(untimed).steady.storage_bytes) / static_cast<double>(total);
}

}  // namespace

SimulatorCase draw_case(std::uint64_t set_seed, std::uint64_t number) {
  Draws draws(mix(set_seed, number));
  SimulatorCase drawn;
  drawn.number = number;
  drawn.close = number % 3 == 0;
  const double rate = draws.log_between(500, 1500);
  const auto around = [&] { return rate * (drawn.close ? draws.between(1, 1 + close_within) : draws.log_between(1.0 / 3, 3)); };
  const double fetch = around();
  drawn.prep_rate = around();
  drawn.ingestion_rate = around();

  EpochSetup& setup = drawn.setup;
  setup.seed = draws.integer(1, 1'000'000);
  setup.epochs = 4;
  setup.accelerators.count = draws.integer(1, 8);
  setup.accelerators.step = draws.chance(0.5) ? StepMode::lockstep : StepMode::independent;
  setup.accelerators.samples_per_s = drawn.ingestion_rate / setup.accelerators.count;
  setup.batch_size = std::min(draws.one_of(std::array<std::uint32_t, 5>{4, 8, 16, 32, 64}), 192 / setup.accelerators.count);
  const std::uint32_t step = setup.batch_size * setup.accelerators.count;
  const double slowest = std::min({fetch, drawn.prep_rate, drawn.ingestion_rate});
  setup.samples = std::max(static_cast<std::uint32_t>(slowest * epoch_seconds * draws.between(0.8, 1.2)), 5 * step + draws.integer(0, step));
  setup.prefetch_batches = std::max(4U, 2 * setup.accelerators.count);
  if (draws.chance(0.4)) setup.prefetch_batches = draws.integer(1, 3 * setup.accelerators.count);

  setup.prep.kind = SimulatedPrep::Kind::emulated;
  setup.prep.workers = draws.integer(1, 8);
  setup.prep.seconds_per_sample = Distribution::constant(setup.prep.workers / drawn.prep_rate, "case");
  setup.cache = draw_cache(draws);
  setup.order = draw_order(draws);
  drawn.index = draw_index(draws, setup.samples, draws.integer(20, 200));
  setup.records = drawn.index->records();
  setup.storage.fetch_places = setup.samples + 1000;  // no limit while hits are counted
  drawn.hit_share = hit_share(setup, drawn.index->bytes());
  setup.storage.kind = SimulatedStorage::Kind::device;
  drawn.storage_rate = fetch * std::max(1 - drawn.hit_share, 0.02);
  setup.storage.device = draw_disk(draws, drawn.storage_rate);
  setup.storage.fetch_places = draw_places(draws, setup);
  const double mean = static_cast<double>(drawn.index->bytes()) / setup.samples;
  drawn.storage_rate = storage_device_rate(setup.storage.device, mean, setup.storage.fetch_places) / mean;
  return drawn;
}

std::string SimulatorCase::describe() const {
  return fmt::format(
      "{}{} {}x{} {} batch, {} samples, {} workers, {} {:.0f}%, {} buffer {}, disk {:.2f} MB/s {:.1f} ms depth {}, places {}, prefetch {}", number,
      close ? " close" : "", setup.accelerators.count, setup.accelerators.step == StepMode::lockstep ? "lockstep" : "independent", setup.batch_size,
      setup.samples, setup.prep.workers, cache_kind_name(setup.cache.kind), 100 * setup.cache.fraction, order_kind_name(setup.order.kind),
      setup.order.shuffle_buffer, setup.storage.device.bytes_per_second / 1e6, 1e3 * to_seconds(setup.storage.device.latency),
      setup.storage.device.queue_depth, setup.storage.fetch_places, setup.prefetch_batches);
}

}  // namespace dsanalyze::bench
