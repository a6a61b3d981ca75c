#include <fmt/format.h>

#include <algorithm>

#include "base/text/units.hpp"
#include "models/whatif/whatif_parts.hpp"
#include "search_parts.hpp"

namespace dsanalyze::search {
namespace {

std::string source_words(Provenance provenance) { return provenance == Provenance::assumed ? "the list assumes it" : "by the list"; }

/// The least sure of what the list says of a storage's speed.
Provenance provenance_of(const StoragePrice& storage) {
  const bool assumed = storage.request_latency_seconds.provenance == Provenance::assumed ||
                       storage.most_bytes_per_s.provenance == Provenance::assumed ||
                       (storage.included_bytes_per_s && storage.included_bytes_per_s->provenance == Provenance::assumed);
  return assumed ? Provenance::assumed : storage.most_bytes_per_s.provenance;
}

}  // namespace

std::vector<std::string> assumptions_of(const SearchSetup& setup, const RateModel& model, const PriceList& prices, const Base& base) {
  std::vector<std::string> list;
  const StoragePrice& storage = prices.storage.at(setup.storage);
  if (const Provenance provenance = provenance_of(storage); provenance != Provenance::measured)
    list.push_back(fmt::format("{} gives {} with {} a request ({})", setup.storage, format_bytes_per_second(setup.storage_bytes_per_s),
                               format_seconds(storage.request_latency_seconds.value), source_words(provenance)));
  if (base.kind_assumed) list.push_back(fmt::format("G was measured on {}", base.measured_kind));
  if (setup.accelerator != base.measured_kind) {
    const SourcedNumber& speed = prices.accelerators.at(setup.accelerator).relative_speed;
    list.push_back(fmt::format("one {} trains {} times as fast as one {} ({})", setup.accelerator, format_number(speed.value / base.measured_speed),
                               base.measured_kind, source_words(speed.provenance)));
  }
  const double accelerators = static_cast<double>(setup.accelerators) * setup.servers;
  if (accelerators > base.accelerators)
    list.push_back(fmt::format("G grows as the accelerators do, from {} to {}", format_number(base.accelerators), format_number(accelerators)));
  if (model.measured_cores_high && setup.cores > *model.measured_cores_high)
    list.push_back(
        fmt::format("P goes on from {} to {} {}", whatif::cores_text(*model.measured_cores_high), format_number(setup.cores),
                    model.scaling.law().contention <= 0 && model.scaling.law().coherence <= 0 ? "as if prep scaled linearly" : "by the fitted law"));
  if (setup.servers > 1) list.emplace_back("exchanging gradients takes no time of its own");
  return list;
}

double extrapolation_of(const SearchSetup& setup, const RateModel& model, const PriceList& prices, const Base& base) {
  WhatIfChange change;
  change.cores = setup.cores;
  change.accelerators = setup.accelerators;
  change.servers = static_cast<std::uint32_t>(setup.servers);
  change.accelerator_speed = prices.accelerators.at(setup.accelerator).relative_speed.value / base.measured_speed;
  return whatif::extrapolation(model, change);
}

}  // namespace dsanalyze::search
