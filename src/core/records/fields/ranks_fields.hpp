#pragma once

#include "core/partition/peers.hpp"
#include "core/records/ranks_record.hpp"
#include "core/sharing_modes.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<RankEpochRecord> {
  using R = RankEpochRecord;
  static constexpr std::tuple list{field("epoch", &R::epoch),
                                   field("seconds", &R::seconds),
                                   field("end_seconds", &R::end_seconds),
                                   field("samples", &R::samples),
                                   field("digest", &R::digest),
                                   field("cache_hits", &R::cache_hits),
                                   field("peer_hits", &R::peer_hits),
                                   field("peer_bytes", &R::peer_bytes),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("storage_bytes", &R::storage_bytes)};
};

template <>
struct Fields<RankRecord> {
  using R = RankRecord;
  static constexpr std::tuple list{field("rank", &R::rank).in(0, most_ranks - 1),
                                   field("host", &R::host),
                                   field("end", &R::end).one_of(names_of_values<JobEnd::finished, JobEnd::lost>),
                                   field("samples_per_s", &R::samples_per_s),
                                   field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("epoch_seconds", &R::epoch_seconds),
                                   field("seconds", &R::seconds),
                                   field("samples", &R::samples),
                                   field("samples_failed", &R::samples_failed),
                                   field("cache_hits", &R::cache_hits),
                                   field("cache_misses", &R::cache_misses),
                                   field("peer_hits", &R::peer_hits),
                                   field("peer_bytes", &R::peer_bytes),
                                   field("redirected_requests", &R::redirected_requests),
                                   field("served_samples", &R::served_samples),
                                   field("served_bytes", &R::served_bytes),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("storage_bytes", &R::storage_bytes),
                                   field("held_samples", &R::held_samples),
                                   field("held_bytes", &R::held_bytes),
                                   field("adopted_samples", &R::adopted_samples),
                                   field("adopted_bytes", &R::adopted_bytes),
                                   field("refused_connections", &R::refused_connections),
                                   field("first_batch_seconds", &R::first_batch_seconds),
                                   field("stall_fraction", &R::stall_fraction).in(0, 1),
                                   field("longest_stall_seconds", &R::longest_stall_seconds),
                                   field("peak_memory_bytes", &R::peak_memory_bytes),
                                   field("epochs", &R::epochs),
                                   field("training", &R::training).omitted()};
};

template <>
struct Fields<LostRankRecord> {
  using R = LostRankRecord;
  /// "untrained" and how many samples these are.
  static void write_samples(Json& object, const R& record);
  static void read_samples(JsonObject& object, R& record);
  static constexpr std::tuple list{field("rank", &R::rank).in(0, most_ranks - 1), field("epoch", &R::epoch), custom(&write_samples, &read_samples)};
};

template <>
struct Fields<PartitionRecord> {
  using R = PartitionRecord;
  static void write_ranks_at_end(Json& object, const R& record) { object["ranks_at_end"] = record.ranks_at_end; }
  static void read_ranks_at_end(JsonObject& object, R& record) {
    record.ranks_at_end = static_cast<int>(object.integer("ranks_at_end", 0, record.world));
  }
  static constexpr std::tuple list{field("partition", &R::partition).one_of(enum_names<PartitionMode>),
                                   field("balance_from", &R::balance_from).one_of(enum_names<BalanceFrom>),
                                   field("storage_scope", &R::storage_scope).one_of(enum_names<StorageScope>),
                                   field("world", &R::world).in(1, most_ranks),
                                   custom(&write_ranks_at_end, &read_ranks_at_end),
                                   field("nowhere_samples", &R::nowhere_samples),
                                   field("nowhere_bytes", &R::nowhere_bytes),
                                   field("balance_traffic", &R::balance_traffic).in(0, 1),
                                   field("lost", &R::lost)};
};

}  // namespace dsanalyze
