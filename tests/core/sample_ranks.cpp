#include "sample_results.hpp"

namespace dsanalyze::test {

std::vector<RankRecord> full_ranks() {
  RankRecord finished;
  finished.rank = 1;
  finished.host = "node-b";
  finished.end = JobEnd::finished;
  finished.samples_per_s = 411.5;
  finished.ci95_samples_per_s = {405, 418};
  finished.epoch_seconds = 10.4;
  finished.seconds = 31.75;
  finished.samples = 52;
  finished.samples_failed = 1;
  finished.cache_hits = 30;
  finished.cache_misses = 22;
  finished.peer_hits = 12;
  finished.peer_bytes = 1320;
  finished.redirected_requests = 3;
  finished.served_samples = 14;
  finished.served_bytes = 1540;
  finished.requested_bytes = 1100;
  finished.storage_bytes = 4096;
  finished.held_samples = 17;
  finished.held_bytes = 1870;
  finished.adopted_samples = 2;
  finished.adopted_bytes = 220;
  finished.refused_connections = 5;
  finished.first_batch_seconds = 0.75;
  finished.stall_fraction = 0.0625;
  finished.longest_stall_seconds = 0.0125;
  finished.peak_memory_bytes = 4096;
  finished.epochs = {{0, 11, 11.25, 17, "17-aa", 0, 0, 0, 1870, 4096}, {1, 10.5, 21.75, 35, "35-bb", 30, 12, 1320, 220, std::nullopt}};
  finished.training = TrainingRecord{"float", 192, 64, 10, 13'002, 0.02, 0.9, 2, {{0, 2.31}}, {{0, 3, 2.3}}};
  RankRecord lost;
  lost.rank = 2;
  lost.host = "node-c";
  lost.end = JobEnd::lost;
  RankRecord first = finished;
  first.rank = 0;
  first.host = "node-a";
  first.training.reset();
  return {first, finished, lost};
}

PartitionRecord full_partition() { return {"locality", "storage", "shared", 3, 2, 7, 770, 0.034, {{2, 1, {3, 4, 17, 40}}, {0, 2, {}}}}; }

}  // namespace dsanalyze::test
