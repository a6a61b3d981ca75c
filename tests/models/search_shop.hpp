#pragma once

#include <optional>

#include "models/search/search.hpp"

namespace dsanalyze::test_shop {

/// A profile's model and a price list small enough to be understood, for tests of the search.
inline constexpr double samples = 1'000'000;
inline constexpr double sample_bytes = 100'000;

inline RateModel measured_model(double error = 0.01) {
  RateModel model;
  model.rates = {8000, 6000, 100'000, 3000};
  model.ingestion_error = model.prep_error = model.cache_error = model.storage_error = error;
  model.cache_fraction = 0.35;
  model.cores = 12;
  model.accelerators = 4;
  model.dataset_bytes = static_cast<Bytes>(samples * sample_bytes);
  model.dataset_samples = static_cast<std::uint64_t>(samples);
  return model;
}

inline ListedPrice hourly(double price) {
  ListedPrice listed;
  listed.listed.value = listed.per_hour = price;
  return listed;
}

inline SourcedNumber number(double value) { return {value, Provenance::assumed, "a test"}; }

inline PriceList shop() {
  PriceList list;
  list.name = "shop";
  list.currency = "EUR";
  list.date = "2024-02-29";
  list.server = {hourly(0.5), Bytes{16} << 30, 1};
  list.core = {hourly(0.04), 1, 1, 64};
  list.memory = {hourly(0.005), Bytes{512} << 30};
  // The faster, the dearer for what it does: so the front has several points.
  list.accelerators["slowest"] = {hourly(0.2), number(0.25), 8};
  list.accelerators["slow"] = {hourly(0.6), number(0.5), 8};
  list.accelerators["usual"] = {hourly(2), number(1), 8};
  list.accelerators["fast"] = {hourly(8), number(2), 8};
  StoragePrice disk;
  disk.price_per_gb = hourly(0.0001);
  disk.price_per_mb_per_s = hourly(0.0005);
  disk.included_bytes_per_s = number(100e6);
  disk.most_bytes_per_s = number(1000e6);
  list.storage["disk"] = disk;
  StoragePrice flash = disk;
  flash.price_per_gb = hourly(0.0006);
  flash.price_per_mb_per_s = std::nullopt;
  flash.included_bytes_per_s = number(600e6);
  flash.most_bytes_per_s = number(600e6);
  list.storage["flash"] = flash;
  return list;
}

inline SearchQuestion question_of(std::optional<double> target = std::nullopt) {
  SearchQuestion question;
  question.prices = shop();
  question.measured_accelerator = "usual";
  if (target) question.target = SearchQuestion::Target{"target", target, std::nullopt};
  return question;
}

}  // namespace dsanalyze::test_shop
