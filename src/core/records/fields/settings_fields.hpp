#pragma once

#include "core/records/settings.hpp"
#include "fields.hpp"

namespace dsanalyze {

/// A setting, of whichever group. One that is not there, or null, keeps its default.
template <typename Group, typename Member>
constexpr TableField<ProfileSettings, Member> setting(const char* key, Member Group::*member) {
  return field(key, static_cast<Member ProfileSettings::*>(member)).newer();
}

template <>
struct Fields<ProfileSettings> {
  using R = ProfileSettings;
  /// Servers have a network or do not ask one another: none that is null.
  static constexpr std::array networks = {"real", "emulated"};
  /// may_differ(): where the data lies, how long and with which seed is measured, which runs are made (a missing one is not compared), what another
  /// loader reaches, and the way of reading, which is chosen by measuring unless it is asked for.
  static constexpr std::tuple list{setting("dataset", &R::dataset).may_differ(),
                                   setting("workload", &R::workload),
                                   setting("preset", &R::preset),
                                   setting("scale", &R::scale),
                                   setting("accelerator", &R::accelerator),
                                   setting("accelerator_name", &R::accelerator_name),
                                   setting("accelerator_samples_per_s", &R::accelerator_rate),
                                   setting("accelerator_precision", &R::accelerator_precision),
                                   setting("accelerators", &R::accelerators),
                                   setting("mesh", &R::mesh).omitted(),
                                   setting("input_sharding", &R::input_sharding).omitted(),
                                   setting("batch_size", &R::batch_size),
                                   setting("step", &R::step),
                                   setting("observed_samples_per_s", &R::observed_rate).may_differ(),
                                   setting("storage", &R::storage),
                                   setting("storage_name", &R::storage_name),
                                   setting("storage_bytes_per_s", &R::storage_bytes_per_s),
                                   setting("storage_latency_seconds", &R::storage_latency_seconds),
                                   setting("storage_queue_depth", &R::storage_queue_depth),
                                   setting("read_mode", &R::read_mode).may_differ(),
                                   setting("io", &R::io).may_differ(),
                                   setting("fetch_concurrency", &R::fetch_concurrency),
                                   setting("max_storage_bytes_per_s", &R::max_storage_bytes_per_s),
                                   setting("prep", &R::prep),
                                   setting("prep_samples_per_s_per_core", &R::prep_rate_per_core),
                                   setting("prep_place", &R::prep_place).omitted(),
                                   setting("gpu_share", &R::gpu_share).omitted().in(0, 1).may_differ(),
                                   setting("workers", &R::workers),
                                   setting("cores", &R::cores),
                                   setting("dtype", &R::dtype),
                                   setting("layout", &R::layout),
                                   setting("cache", &R::cache),
                                   setting("cache_size", &R::cache_size),
                                   setting("admit", &R::admission),
                                   setting("memory_limit", &R::memory_limit),
                                   setting("order", &R::order),
                                   setting("shuffle_buffer_samples", &R::shuffle_buffer),
                                   setting("readers", &R::readers),
                                   setting("jobs", &R::jobs),
                                   setting("share", &R::share).one_of(profile_sharings),
                                   setting("producers", &R::producers),
                                   setting("batch_copy", &R::batch_copy),
                                   setting("trials", &R::trials),
                                   setting("stop_at_epochs", &R::stop_at_epochs),
                                   setting("job_speeds", &R::job_speeds).omitted(),
                                   setting("staging_size", &R::staging_size).omitted(),
                                   setting("staging_policy", &R::staging_policy).omitted(),
                                   setting("world", &R::world),
                                   setting("partition", &R::partition),
                                   setting("balance_from", &R::balance_from),
                                   setting("storage_scope", &R::storage_scope),
                                   setting("network", &R::network).one_of(networks),
                                   setting("network_bytes_per_s", &R::network_bytes_per_s),
                                   setting("runs", &R::runs).may_differ(),
                                   setting("epochs", &R::epochs),
                                   setting("time_budget_seconds", &R::time_budget_seconds).may_differ(),
                                   setting("subset", &R::subset),
                                   setting("on_error", &R::on_error),
                                   setting("error_budget_fraction", &R::error_budget),
                                   setting("seed", &R::seed).all_64_bits().may_differ(),
                                   setting("image_key", &R::image_key).omitted(),
                                   setting("label_key", &R::label_key).omitted()};
};

}  // namespace dsanalyze
