#pragma once

#include "core/dependent/prepared_store.hpp"
#include "core/rates.hpp"
#include "core/records/search_result.hpp"
#include "core/records/whatif_result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<WhatIfChange> {
  using R = WhatIfChange;
  static constexpr std::int64_t most_machines = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::tuple list{field("cache_fraction", &R::cache_fraction).omitted(),
                                   field("cache_bytes", &R::cache_bytes).omitted(),
                                   field("cache", &R::cache).omitted(),
                                   field("workers", &R::workers).omitted(),
                                   field("cores", &R::cores).omitted(),
                                   field("cores_factor", &R::cores_factor).omitted(),
                                   field("accelerator_speed", &R::accelerator_speed).omitted(),
                                   field("transfer_factor", &R::transfer_factor).omitted(),
                                   field("prep_place", &R::prep_place).omitted(),
                                   field("accelerators", &R::accelerators).omitted(),
                                   field("storage_bytes_per_s", &R::storage_bytes_per_s).omitted(),
                                   field("storage_factor", &R::storage_factor).omitted(),
                                   field("order", &R::order).omitted(),
                                   field("request_bytes", &R::request_bytes).in(0, most_record_bytes).omitted(),
                                   field("fetch_concurrency", &R::fetch_concurrency).omitted(),
                                   field("batch_size", &R::batch_size).omitted(),
                                   field("jobs", &R::jobs).in(1, most_machines).omitted(),
                                   along(&R::jobs, field("share", &R::share)),
                                   field("servers", &R::servers).in(1, most_machines).omitted(),
                                   along(&R::servers, field("partition", &R::partition), field("balance_from", &R::balance_from).omitted(),
                                         field("storage_scope", &R::storage_scope)),
                                   field("network_bytes_per_s", &R::network_bytes_per_s).omitted()};
};

template <>
struct Fields<StallShares> {
  using R = StallShares;
  static constexpr std::tuple list{field("compute", &R::compute).any_sign(), field("prep", &R::prep).any_sign(),
                                   field("fetch", &R::fetch).any_sign()};
};

template <>
struct Fields<WhatIfAnswer::Simulated> {
  using R = WhatIfAnswer::Simulated;
  static constexpr std::tuple list{field("stall_p50_seconds", &R::stall_p50_seconds), field("stall_p99_seconds", &R::stall_p99_seconds),
                                   field("stall_epoch_boundary_seconds", &R::stall_epoch_boundary_seconds),
                                   field("first_batch_seconds", &R::first_batch_seconds)};
};

template <>
struct Fields<WhatIfAnswer::Measured> {
  using R = WhatIfAnswer::Measured;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s).any_sign(),
                                   field("speed", &R::speed),
                                   field("error", &R::error).any_sign(),
                                   field("error_as_profiled", &R::error_as_profiled).any_sign(),
                                   field("covered", &R::covered),
                                   field("windows", &R::windows),
                                   field("void_windows", &R::void_windows),
                                   field("bottleneck", &R::bottleneck),
                                   field("verdict_right", &R::verdict_right)};
};

template <>
struct Fields<WhatIfAnswer::Jobs> {
  using R = WhatIfAnswer::Jobs;
  static constexpr std::tuple list{field("samples_per_s_each", &R::samples_per_s_each), field("reads_over_dataset", &R::reads_over_dataset),
                                   field("prepared_over_dataset", &R::prepared_over_dataset), field("prepared_batches", &R::prepared_batches)};
};

template <>
struct Fields<WhatIfAnswer::Servers> {
  using R = WhatIfAnswer::Servers;
  static constexpr std::tuple list{field("samples_per_s_each", &R::samples_per_s_each), field("fetch_detail", &R::fetch_detail),
                                   field("storage_bytes_server_epoch", &R::storage_bytes_server_epoch),
                                   field("network_bytes_server_epoch", &R::network_bytes_server_epoch), field("slowest_excess", &R::slowest_excess)};
};

template <>
struct Fields<WhatIfAnswer> {
  using R = WhatIfAnswer;
  /// null where G is not known.
  static void write_stalls(Json& object, const R& record);
  static void read_stalls(JsonObject& object, R& record);
  static constexpr std::tuple list{field("change", &R::change),
                                   field("G", &R::ingestion),
                                   field("P", &R::prep),
                                   field("F", &R::fetch).null_if_unknown(),
                                   field("C", &R::cache).null_if_unknown(),
                                   field("S", &R::storage).null_if_unknown(),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s).any_sign(),
                                   field("epoch_seconds", &R::epoch_seconds).or_null(),
                                   field("bottleneck", &R::bottleneck).one_of(enum_names<Resource>),
                                   field("bottleneck_detail", &R::detail).omitted(),
                                   field("too_close", &R::too_close),
                                   field("extrapolation", &R::extrapolation).in(1, most_number).newer(),
                                   custom(&write_stalls, &read_stalls),
                                   field("speedup", &R::speedup),
                                   field("simulated", &R::simulated).omitted(),
                                   field("measured", &R::measured).omitted(),
                                   field("not_measured", &R::not_measured).omitted(),
                                   field("jobs", &R::jobs).omitted(),
                                   field("servers", &R::servers).omitted()};
};

template <>
struct Fields<WhatIfValidation> {
  using R = WhatIfValidation;
  static constexpr std::array outcomes = {"passed", "failed", "undecided"};
  static constexpr std::tuple list{field("outcome", &R::outcome).one_of(outcomes),
                                   field("reason", &R::reason),
                                   field("measured", &R::measured),
                                   field("not_measured", &R::not_measured),
                                   field("median_error", &R::median_error),
                                   field("worst_error", &R::worst_error),
                                   field("covered_share", &R::covered_share).in(0, 1),
                                   field("void_share", &R::void_share).in(0, 1),
                                   field("worst_error_as_profiled", &R::worst_error_as_profiled),
                                   group("speed", field("slowest", &R::slowest), field("fastest", &R::fastest)),
                                   field("verdicts_right", &R::verdicts_right)};
};

template <>
struct Fields<WhatIfFound> {
  using R = WhatIfFound;
  static constexpr std::array questions = {"cache", "cores", "workers", "accelerators", "storage"};
  static constexpr std::tuple list{field("question", &R::question).one_of(questions), field("value", &R::value), field("unit", &R::unit),
                                   field("then", &R::then)};
};

template <>
struct Fields<WhatIfJobMix::Asked> {
  using R = WhatIfJobMix::Asked;
  static constexpr std::tuple list{
      field("name", &R::name),
      field("samples_per_s", &R::samples_per_s),
      field("arrival_seconds", &R::arrival_seconds),
      field("epoch_samples", &R::epoch_samples).in(1, most_integer),
      field("batch_size", &R::batch_size).in(1, std::numeric_limits<std::uint32_t>::max()),
      field("epochs", &R::epochs).in(1, std::numeric_limits<std::uint32_t>::max()),
  };
};

template <>
struct Fields<WhatIfJobMix::Job> {
  using R = WhatIfJobMix::Job;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s), field("completion_seconds", &R::completion_seconds),
                                   field("prepared_per_sample", &R::prepared_per_sample)};
};

template <>
struct Fields<WhatIfJobMix::Answer> {
  using R = WhatIfJobMix::Answer;
  static constexpr std::array shares = {"none", "coordinated", "dependent"};
  static constexpr std::array methods = {"closed form", "simulated"};
  /// Of what was predicted.
  static void write_prediction(Json& object, const R& record);
  static void read_prediction(JsonObject& object, R& record);
  static constexpr std::tuple list{field("share", &R::share).one_of(shares), field("staging_fraction", &R::staging_fraction).in(0, 1).omitted(),
                                   field("staging_policy", &R::staging_policy).one_of(enum_names<StagingPolicy>).omitted(),
                                   field("not_predicted", &R::not_predicted).omitted(), custom(&write_prediction, &read_prediction)};
};

template <>
struct Fields<WhatIfJobMix> {
  using R = WhatIfJobMix;
  static void check(JsonObject& object, const R& record) {
    if (record.answers.empty()) object.fail("answers", "found an empty list, expected at least one way of sharing");
    for (const R::Answer& answer : record.answers)
      if (answer.not_predicted.empty() && answer.jobs.size() != record.jobs.size())
        object.fail("answers", "found an answer about other jobs, expected one for each of /job_mix/jobs");
  }
  static constexpr std::tuple list{field("path", &R::path), field("samples", &R::samples), field("P", &R::prep),
                                   field("F", &R::fetch),   field("jobs", &R::jobs),       field("answers", &R::answers)};
};

template <>
struct Fields<WhatIfResult> {
  using R = WhatIfResult;
  /// With the share of the epoch that lies between what was attained and what the rates give.
  static void write_attained(Json& object, const R& record);
  static void read_attained(JsonObject& object, R& record);
  static void check(const JsonObject& object, const R& record) {
    if (record.answers.empty()) object.fail("answers", "found an empty list, expected at least the configuration as measured");
  }
  static constexpr std::tuple list{SchemaField{"dsanalyze.whatif/1", "dsanalyze whatif"},
                                   field("tool", &R::tool),
                                   group("source", field("from", &R::source), field("model", &R::model),
                                         within(&R::rates, field("G", &Rates::ingestion), field("P", &Rates::prep),
                                                field("C", &Rates::cache).null_if_unknown(), field("S", &Rates::storage).null_if_unknown()),
                                         field("N", &R::network), field("cache_fraction", &R::base_cache_fraction)),
                                   field("answers", &R::answers),
                                   field("found", &R::found),
                                   custom(&write_attained, &read_attained),
                                   field("advice", &R::advice),
                                   field("search", &R::search).omitted(),
                                   field("validation", &R::validation).omitted(),
                                   field("job_mix", &R::job_mix).omitted(),
                                   field("findings", &R::findings)};
};

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
