#pragma once

#include "core/rates.hpp"
#include "core/records/search_result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<SearchSetup> {
  using R = SearchSetup;
  static constexpr std::tuple list{
      field("servers", &R::servers),         field("partition", &R::partition),       field("cores", &R::cores),
      field("accelerator", &R::accelerator), field("accelerators", &R::accelerators), field("cache_fraction", &R::cache_fraction),
      field("cache_bytes", &R::cache_bytes), field("storage", &R::storage),           field("storage_bytes_per_s", &R::storage_bytes_per_s)};
};

template <>
struct Fields<SearchPoint::Costs> {
  using R = SearchPoint::Costs;
  static constexpr std::tuple list{field("server", &R::server),   field("cores", &R::cores),
                                   field("memory", &R::memory),   field("accelerators", &R::accelerators),
                                   field("storage", &R::storage), field("network", &R::network)};
};

template <>
struct Fields<SearchPoint::Simulated> {
  using R = SearchPoint::Simulated;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s), field("epoch_seconds", &R::epoch_seconds),
                                   field("cost_per_epoch", &R::cost_per_epoch)};
};

template <>
struct Fields<SearchPoint> {
  using R = SearchPoint;
  static constexpr std::tuple list{field("setup", &R::setup),
                                   field("G", &R::ingestion),
                                   field("P", &R::prep),
                                   field("C", &R::cache),
                                   field("S", &R::storage),
                                   field("F", &R::fetch),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s).any_sign(),
                                   field("epoch_seconds", &R::epoch_seconds),
                                   field("first_epoch_seconds", &R::first_epoch_seconds),
                                   field("bottleneck", &R::bottleneck).one_of(enum_names<Resource>),
                                   field("next", &R::next).one_of(enum_names<Resource>),
                                   field("next_samples_per_s", &R::next_samples_per_s),
                                   field("too_close", &R::too_close),
                                   field("costs_per_hour", &R::costs_per_hour),
                                   field("cost_per_hour", &R::cost_per_hour),
                                   field("cost_per_epoch", &R::cost_per_epoch),
                                   field("reach", &R::reach),
                                   field("assumptions", &R::assumptions).newer().not_null(),
                                   field("extrapolation", &R::extrapolation).newer(),
                                   field("simulated", &R::simulated),
                                   field("close_to_cheaper", &R::close_to_cheaper)};
};

template <>
struct Fields<SearchTarget> {
  using R = SearchTarget;
  static constexpr std::tuple list{field("text", &R::text), field("samples_per_s", &R::samples_per_s), field("epoch_seconds", &R::epoch_seconds)};
};

template <>
struct Fields<SearchResult> {
  using R = SearchResult;
  static constexpr std::tuple list{group("prices", field("name", &R::prices), field("path", &R::prices_path), field("date", &R::prices_date),
                                         field("age_days", &R::prices_age_days).in(-1'000'000, 10'000'000), field("currency", &R::currency)),
                                   field("setups", &R::setups),
                                   field("simulated", &R::simulated),
                                   field("target", &R::target),
                                   field("reach", &R::reach),
                                   field("cheapest", &R::cheapest),
                                   field("cheapest_hour", &R::cheapest_hour),
                                   field("cheaper_maybe", &R::cheaper_maybe),
                                   field("fastest", &R::fastest),
                                   field("front", &R::front),
                                   field("conclusions", &R::conclusions),
                                   field("findings", &R::findings)};
};

}  // namespace dsanalyze
