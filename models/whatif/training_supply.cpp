#include "training_supply.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

std::optional<TrainingModel::Storage> storage_of(const ProfileResult& profile, const RunRecord& full) {
  constexpr double in_order = 0.5;
  if (!profile.storage || !profile.reads || !profile.reads->dataset_bytes || !profile.reads->page_cache_bytes) return std::nullopt;
  const ReadsRecord& reads = *profile.reads;
  TrainingModel::Storage storage;
  storage.rate = profile.storage->samples_per_s;
  storage.error = relative_error(*profile.storage);
  storage.cache_rate = profile.cache ? profile.cache->samples_per_s : 0;
  storage.bytes_per_sample = reads.bytes_per_sample;
  storage.dataset_bytes = *reads.dataset_bytes;
  storage.page_cache_bytes = *reads.page_cache_bytes;
  double request_bytes = reads.bytes_per_sample;
  for (std::size_t at = 0; at < profile.storage_by_request.size(); ++at) {
    const StoragePoint& point = profile.storage_by_request[at];
    if (point.concurrency < 1 || !(point.bytes_per_s >= 1))
      throw UsageError(
          fmt::format("/curves/S_by_request/{}: found {} reads in flight and {}, expected at least one of each: profile the command again", at,
                      point.concurrency, format_bytes_per_second(point.bytes_per_s)));
    storage.curve.push_back({static_cast<double>(point.concurrency), point.bytes_per_s / reads.bytes_per_sample});
    request_bytes = point.request_bytes;
  }
  if (storage.rate <= 0 || storage.bytes_per_sample <= 0 || storage.dataset_bytes == 0 || storage.curve.empty()) return std::nullopt;
  MissModel::Facts facts;
  facts.kind = CacheKind::page_model_linux;
  storage.order = reads.ordered_fraction.value_or(0) > in_order ? OrderKind::sequential : OrderKind::random;
  facts.sample_bytes = static_cast<Bytes>(std::max(request_bytes, 1.0));
  for (std::size_t order = 0; order < storage.misses.size(); ++order) {
    facts.order = static_cast<OrderKind>(order);
    storage.misses[order] = MissModel(facts);
  }
  if (full.requested_bytes > 0)
    storage.found_fraction = std::clamp(static_cast<double>(full.storage_bytes.value_or(0)) / static_cast<double>(full.requested_bytes), 0.0, 1.0);
  return storage;
}

ChangedSupply changed_supply(const TrainingModel::Storage& storage, const TrainingChange& change) {
  ChangedSupply changed{storage.curve};
  const double best = std::ranges::max(changed.curve, {}, &SupplyPoint::samples_per_s).samples_per_s;
  double factor = change.storage_factor.value_or(1);
  if (change.storage_bytes_per_s) {
    const double asked = *change.storage_bytes_per_s / storage.bytes_per_sample;
    if (asked < best)
      changed.most = asked;  // and it is as quick to answer
    else
      factor = asked / best;
  }
  for (SupplyPoint& point : changed.curve) point.samples_per_s *= factor;
  return changed;
}

}  // namespace dsanalyze
