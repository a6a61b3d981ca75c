#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/partition/peers.hpp"
#include "result_json.hpp"

namespace dsanalyze {
namespace {

Json rank_epoch_json(const RankEpochRecord& epoch) {
  return {{"epoch", epoch.epoch},
          {"seconds", epoch.seconds},
          {"end_seconds", epoch.end_seconds},
          {"samples", epoch.samples},
          {"digest", epoch.digest},
          {"cache_hits", epoch.cache_hits},
          {"peer_hits", epoch.peer_hits},
          {"peer_bytes", epoch.peer_bytes},
          {"requested_bytes", epoch.requested_bytes},
          {"storage_bytes", or_null(epoch.storage_bytes)}};
}

Json rank_json(const RankRecord& rank) {
  Json object = {{"rank", rank.rank},
                 {"host", rank.host},
                 {"end", rank.end},
                 {"samples_per_s", rank.samples_per_s},
                 {"ci95_samples_per_s", interval_json(rank.ci95_samples_per_s)},
                 {"epoch_seconds", rank.epoch_seconds},
                 {"seconds", rank.seconds},
                 {"samples", rank.samples},
                 {"samples_failed", rank.samples_failed},
                 {"cache_hits", rank.cache_hits},
                 {"cache_misses", rank.cache_misses},
                 {"peer_hits", rank.peer_hits},
                 {"peer_bytes", rank.peer_bytes},
                 {"redirected_requests", rank.redirected_requests},
                 {"served_samples", rank.served_samples},
                 {"served_bytes", rank.served_bytes},
                 {"requested_bytes", rank.requested_bytes},
                 {"storage_bytes", or_null(rank.storage_bytes)},
                 {"held_samples", rank.held_samples},
                 {"held_bytes", rank.held_bytes},
                 {"adopted_samples", rank.adopted_samples},
                 {"adopted_bytes", rank.adopted_bytes},
                 {"refused_connections", rank.refused_connections},
                 {"first_batch_seconds", rank.first_batch_seconds},
                 {"stall_fraction", rank.stall_fraction},
                 {"longest_stall_seconds", rank.longest_stall_seconds},
                 {"peak_memory_bytes", rank.peak_memory_bytes},
                 {"epochs", Json::array()}};
  for (const RankEpochRecord& each : rank.epochs) object["epochs"].push_back(rank_epoch_json(each));
  if (rank.training) object["training"] = training_json(*rank.training);
  return object;
}

/// "3,17,18": in one text, for a list of hundreds of thousands would take a line each.
std::string samples_text(std::vector<SampleId> samples) {
  std::ranges::sort(samples);
  return fmt::format("{}", fmt::join(samples, ","));
}

Json lost_json(const LostRankRecord& lost) {
  return {{"rank", lost.rank}, {"epoch", lost.epoch}, {"untrained_samples", lost.untrained.size()}, {"untrained", samples_text(lost.untrained)}};
}

Json partition_json(const PartitionRecord& partition) {
  Json object = {{"partition", partition.partition},
                 {"balance_from", partition.balance_from},
                 {"storage_scope", partition.storage_scope},
                 {"world", partition.world},
                 {"ranks_at_end", partition.ranks_at_end},
                 {"nowhere_samples", partition.nowhere_samples},
                 {"nowhere_bytes", partition.nowhere_bytes},
                 {"balance_traffic", partition.balance_traffic},
                 {"lost", Json::array()}};
  for (const LostRankRecord& each : partition.lost) object["lost"].push_back(lost_json(each));
  return object;
}

int read_rank_number(JsonObject& object, std::string_view key) { return static_cast<int>(object.integer(key, 0, most_ranks - 1)); }

RankEpochRecord read_rank_epoch(JsonObject& object) {
  RankEpochRecord epoch;
  epoch.epoch = read_count(object, "epoch");
  epoch.seconds = object.number("seconds", 0, most_number);
  epoch.end_seconds = object.number("end_seconds", 0, most_number);
  epoch.samples = read_count(object, "samples");
  epoch.digest = object.text("digest");
  epoch.cache_hits = read_count(object, "cache_hits");
  epoch.peer_hits = read_count(object, "peer_hits");
  epoch.peer_bytes = read_count(object, "peer_bytes");
  epoch.requested_bytes = read_count(object, "requested_bytes");
  epoch.storage_bytes = read_known_count(object, "storage_bytes");
  return epoch;
}

RankRecord read_rank(JsonObject& object) {
  RankRecord rank;
  rank.rank = read_rank_number(object, "rank");
  rank.host = object.text("host");
  rank.end = object.choice("end", rank_ends());
  rank.samples_per_s = object.number("samples_per_s", 0, most_number);
  rank.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", 0, most_number);
  rank.epoch_seconds = object.number("epoch_seconds", 0, most_number);
  rank.seconds = object.number("seconds", 0, most_number);
  rank.samples = read_count(object, "samples");
  rank.samples_failed = read_count(object, "samples_failed");
  rank.cache_hits = read_count(object, "cache_hits");
  rank.cache_misses = read_count(object, "cache_misses");
  rank.peer_hits = read_count(object, "peer_hits");
  rank.peer_bytes = read_count(object, "peer_bytes");
  rank.redirected_requests = read_count(object, "redirected_requests");
  rank.served_samples = read_count(object, "served_samples");
  rank.served_bytes = read_count(object, "served_bytes");
  rank.requested_bytes = read_count(object, "requested_bytes");
  rank.storage_bytes = read_known_count(object, "storage_bytes");
  rank.held_samples = read_count(object, "held_samples");
  rank.held_bytes = read_count(object, "held_bytes");
  rank.adopted_samples = read_count(object, "adopted_samples");
  rank.adopted_bytes = read_count(object, "adopted_bytes");
  rank.refused_connections = read_count(object, "refused_connections");
  rank.first_batch_seconds = object.number("first_batch_seconds", 0, most_number);
  rank.stall_fraction = object.number("stall_fraction", 0, 1);
  rank.longest_stall_seconds = object.number("longest_stall_seconds", 0, most_number);
  rank.peak_memory_bytes = read_count(object, "peak_memory_bytes");
  for (JsonObject& each : object.objects("epochs")) rank.epochs.push_back(read_rank_epoch(each));
  if (is_known(object, "training")) rank.training = read_training(object.object("training"));
  return rank;
}

/// Ascending numbers; each takes at least two bytes of the text, so that a short file cannot ask for much memory.
std::vector<SampleId> read_samples(JsonObject& object, std::string_view key) {
  const std::string text = object.text(key);
  std::vector<SampleId> samples;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto refuse = [&] {
    object.fail(key, fmt::format("found something else at byte {}, expected ascending sample numbers as \"3,17,18\"", at - text.data()));
  };
  while (at != end) {
    const bool leading_zero = *at == '0' && at + 1 != end && at[1] != ',';
    SampleId sample = 0;
    const auto [after, error] = std::from_chars(at, end, sample);
    if (leading_zero || error != std::errc() || (!samples.empty() && sample <= samples.back())) refuse();
    samples.push_back(sample);
    at = after;
    if (at == end) break;
    if (*at != ',' || ++at == end) refuse();
  }
  return samples;
}

LostRankRecord read_lost(JsonObject& object) {
  LostRankRecord lost{read_rank_number(object, "rank"), read_count(object, "epoch"), read_samples(object, "untrained")};
  if (const std::uint64_t count = read_count(object, "untrained_samples"); count != lost.untrained.size())
    object.fail("untrained_samples", fmt::format("found {}, but /untrained has {}", count, lost.untrained.size()));
  return lost;
}

PartitionRecord read_partition(JsonObject object) {
  PartitionRecord partition;
  partition.partition = object.choice("partition", {"none", "partitioned", "locality"});
  partition.balance_from = object.choice("balance_from", {"peers", "storage"});
  partition.storage_scope = object.choice("storage_scope", {"server", "shared"});
  partition.world = static_cast<int>(object.integer("world", 1, most_ranks));
  partition.ranks_at_end = static_cast<int>(object.integer("ranks_at_end", 0, partition.world));
  partition.nowhere_samples = read_count(object, "nowhere_samples");
  partition.nowhere_bytes = read_count(object, "nowhere_bytes");
  partition.balance_traffic = object.number("balance_traffic", 0, 1);
  for (JsonObject& each : object.objects("lost")) partition.lost.push_back(read_lost(each));
  return partition;
}

}  // namespace

const std::vector<std::string>& rank_ends() {
  static const std::vector<std::string> ends = {"finished", "lost"};
  return ends;
}

void add_ranks(Json& document, const ProfileResult& result) {
  if (result.partition) document["partition"] = partition_json(*result.partition);
  for (const RankRecord& rank : result.ranks) document["ranks"].push_back(rank_json(rank));
}

void read_ranks(JsonObject& root, ProfileResult& result) {
  if (is_known(root, "partition")) result.partition = read_partition(root.object("partition"));
  if (is_known(root, "ranks"))
    for (JsonObject& rank : root.objects("ranks")) result.ranks.push_back(read_rank(rank));
}

std::string to_json(const RankRecord& rank) { return rank_json(rank).dump(-1, ' ', false, Json::error_handler_t::replace); }

RankRecord rank_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  RankRecord rank = read_rank(root);
  root.finish();
  return rank;
}

}  // namespace dsanalyze
