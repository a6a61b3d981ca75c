#include "sample_results.hpp"

namespace dsanalyze::test {

ShareResult full_share() {
  ShareResult result;
  result.tool = {"dsanalyze", "0.1.0", "abc"};
  result.started_utc = "2026-11-21T08:00:00Z";
  result.dataset = {"/data/photos", "folder", 6000, 690'000'000, 0, "00ff", false, 0, 0};
  result.terms = {3, "jobs", 32, 188, 6000, 2, 2, 7, "image 224 x 224, uint8, NCHW", {32, 3, 224, 224}, "uint8", "minio", 241'500'000};
  result.end = "commands-ended";
  result.seconds = 61.5;
  result.epochs = 2;
  result.jobs = {{0, 4001, 0, JobEnd::left, 376, 12'000, 190, 6064, 62, 460'000'000},
                 {1, 4002, 0, JobEnd::died, 5, 160, 4, 128, 0, 15'000'000},
                 {2, 4003, 0, JobEnd::garbage, 20, 640, 8, 256, 1, 31'000'000},
                 {1, 4004, 1, JobEnd::none, 187, 5984, 94, 3008, 0, 200'000'000}};
  result.samples_prepared = 12'056;
  result.batches_taken = 588;
  result.samples_taken = 18'784;
  result.batches_taken_over = 63;
  result.requested_bytes = 706'000'000;
  result.late_reports = 4;
  result.refused = 1;
  result.memory = {6, 12, 4'820'992, 118'784, 57'970'688, 57'966'592};
  result.commands = {{0, 0, std::nullopt, true, 376}, {1, std::nullopt, 9, std::nullopt, std::nullopt}, {2, 3, std::nullopt, false, 0}};
  return result;
}

}  // namespace dsanalyze::test
