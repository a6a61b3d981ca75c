#include <algorithm>
#include <cmath>

#include "models/simulate/epoch_simulator.hpp"
#include "search.hpp"

namespace dsanalyze {
namespace {

/// An epoch of so many samples and so many steps is long enough: more change its rate by less than its interval.
constexpr double enough_samples = 100'000;
constexpr double enough_steps = 100;
/// Short epochs are repeated until they have so many samples together.
constexpr double enough_repeated = 30'000;
constexpr double usual_batch_size = 256;
constexpr std::uint32_t usual_fetch_places = 64;

}  // namespace

std::function<std::optional<double>(const SearchPoint&)> epoch_simulation(const RateModel& model, const PriceList& prices,
                                                                          const ProfileResult::Distributions& distributed) {
  return [model, prices, distributed](const SearchPoint& point) -> std::optional<double> {
    if (!model.misses.is_minio() || !model.dataset_bytes || !model.dataset_samples || point.setup.servers != 1) return std::nullopt;
    const auto dataset_samples = static_cast<double>(*model.dataset_samples);
    const double sample_bytes = static_cast<double>(*model.dataset_bytes) / dataset_samples;
    const StoragePrice& storage = prices.storage.at(point.setup.storage);

    EpochSetup setup;
    const double batch = model.batch_size.value_or(usual_batch_size);
    const double samples = std::min(dataset_samples, std::max(enough_samples, enough_steps * batch * point.setup.accelerators));
    setup.samples = static_cast<std::uint32_t>(samples);
    setup.sample_bytes = with_mean(distributed.sample_bytes, sample_bytes, "bytes of a sample");
    // The epochs between the first and the last begin and end with queues as full: of fewer, one begins with what those before it prepared.
    setup.epochs = 3 + static_cast<std::uint64_t>(enough_repeated / samples);
    setup.batch_size = static_cast<std::uint32_t>(std::clamp(batch, 1.0, samples));
    setup.prefetch_batches = 2 * static_cast<std::uint32_t>(point.setup.accelerators);

    setup.storage.kind = SimulatedStorage::Kind::device;
    setup.storage.device = {point.setup.storage_bytes_per_s, to_nanoseconds(storage.request_latency_seconds.value),
                            static_cast<std::uint32_t>(storage.queue_depth)};
    setup.storage.concurrency = static_cast<std::uint32_t>(storage.queue_depth);
    setup.storage.fetch_places = std::max(usual_fetch_places, 2 * setup.storage.concurrency);

    setup.cache.kind = CacheKind::minio;
    setup.cache.fraction = point.setup.cache_fraction;
    setup.cache.start = SimulatedCache::Start::warm;
    setup.cache.copy_bytes_per_s = point.cache * sample_bytes;

    setup.prep.workers = static_cast<std::uint32_t>(std::max(1.0, std::round(point.setup.cores)));
    setup.prep.seconds_per_sample = with_mean(distributed.prep_seconds, setup.prep.workers / point.prep, "seconds of prep");
    setup.accelerators.count = static_cast<std::uint32_t>(point.setup.accelerators);
    setup.accelerators.samples_per_s = point.ingestion / point.setup.accelerators;
    // Drawn times may add up to a little less than their mean, which makes no stage faster than it is.
    return std::min({simulate_epochs(setup).steady.samples_per_s, point.prep, point.ingestion});
  };
}

}  // namespace dsanalyze
