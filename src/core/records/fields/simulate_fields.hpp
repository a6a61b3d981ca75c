#pragma once

#include "core/dependent/prepared_store.hpp"
#include "core/order.hpp"
#include "core/rates.hpp"
#include "core/records/scenario.hpp"
#include "core/records/simulate_result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<SimulatedOrders> {
  using R = SimulatedOrders;
  static constexpr std::tuple list{field("order", &R::order).one_of(enum_names<OrderKind>),
                                   field("shuffle_buffer_samples", &R::shuffle_buffer),
                                   field("readers", &R::readers),
                                   field("job_orders", &R::job_orders).one_of(enum_names<Scenario::JobOrders>),
                                   field("stagger_fraction", &R::stagger),
                                   field("turn_samples", &R::turn_samples),
                                   field("unit_bytes", &R::unit_bytes),
                                   field("seed", &R::seed).all_64_bits()};
};

/// A stage's rate; null: it takes no time.
struct RateOrEndless {
  const char* key;
  double PipelineTimes::*rate;

  void write(Json& object, const PipelineTimes& times) const;
  void read(JsonObject& object, PipelineTimes& times) const;
};

template <>
struct Fields<PipelineTimes> {
  using R = PipelineTimes;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s),
                                   field("epoch_seconds", &R::epoch_seconds),
                                   field("first_batch_seconds", &R::first_batch_seconds),
                                   field("stall_p50_seconds", &R::stall_p50_seconds),
                                   field("stall_p99_seconds", &R::stall_p99_seconds),
                                   field("boundary_stall_seconds", &R::boundary_stall_seconds),
                                   RateOrEndless{"F", &R::fetch},
                                   RateOrEndless{"P", &R::prep},
                                   RateOrEndless{"G", &R::ingestion},
                                   group("stalls", field("prep", &R::prep_stall).any_sign(), field("fetch", &R::fetch_stall).any_sign()),
                                   field("bottleneck", &R::bottleneck).one_of(enum_names<Resource>),
                                   field("too_close", &R::too_close)};
};

template <>
struct Fields<SimulatedDraws::Store> {
  using R = SimulatedDraws::Store;
  static constexpr std::tuple list{field("policy", &R::policy).one_of(enum_names<StagingPolicy>),
                                   field("places", &R::places),
                                   field("fraction", &R::fraction).in(0, 1),
                                   field("samples_prepared", &R::prepared),
                                   field("samples_from_store", &R::from_store),
                                   field("prepared_per_sample", &R::prepared_per_sample),
                                   field("prepared_per_fastest", &R::prepared_per_fastest)};
};

template <>
struct Fields<SimulatedDraws> {
  using R = SimulatedDraws;
  static constexpr std::tuple list{
      field("rounds", &R::rounds),           field("samples_drawn", &R::drawn), field("samples_drawn_by_fastest", &R::drawn_by_fastest),
      field("place_bytes", &R::place_bytes), field("recorded", &R::recorded),   field("stores", &R::stores)};
};

template <>
struct Fields<SimulateResult> {
  using R = SimulateResult;
  static Json origin(const R& record) { return record.orders ? "scenario" : "trace"; }
  static void write_recorded(Json& object, const R& record);
  static void read_recorded(JsonObject& object, R& record);
  /// Each with the times of its pipeline.
  static void write_cases(Json& object, const R& record);
  static void read_cases(JsonObject& object, R& record);
  static void check(JsonObject& object, const R& record);
  static constexpr std::tuple list{
      SchemaField{"dsanalyze.simulate/1", "dsanalyze simulate"},
      field("tool", &R::tool),
      group("source", derived("from", &origin), field("path", &R::source), field("name", &R::name).or_null(),
            field("description", &R::description).or_null()),
      group("dataset", field("samples", &R::samples), field("bytes", &R::dataset_bytes), field("digest", &R::digest).or_null()),
      field("jobs", &R::jobs),
      field("accesses", &R::accesses),
      field("orders", &R::orders),
      custom(&write_recorded, &read_recorded),
      custom(&write_cases, &read_cases),
      field("draws", &R::draws).omitted(),
      field("findings", &R::findings)};
};

}  // namespace dsanalyze
