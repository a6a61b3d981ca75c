#include "jobs_record.hpp"

#include <algorithm>
#include <map>

namespace dsanalyze {

double preparations_per_sample(const std::vector<JobRecord>& jobs, std::uint64_t prepared) {
  struct Sums {
    std::uint64_t jobs = 0, prepared = 0, samples = 0;
  };
  std::map<std::uint64_t, Sums> epochs;
  std::uint64_t trained = 0;
  for (const JobRecord& job : jobs) {
    trained = std::max(trained, job.samples);
    for (const JobEpochRecord& epoch : job.epochs) {
      Sums& sums = epochs[epoch.epoch];
      ++sums.jobs;
      sums.prepared += epoch.samples_prepared;
      sums.samples = std::max(sums.samples, epoch.samples);
    }
  }
  Sums whole;
  for (const auto& [number, sums] : epochs) {
    if (sums.jobs < jobs.size()) continue;
    whole.prepared += sums.prepared;
    whole.samples += sums.samples;
  }
  if (whole.prepared > 0 && whole.samples > 0) return static_cast<double>(whole.prepared) / static_cast<double>(whole.samples);
  return trained > 0 ? static_cast<double>(prepared) / static_cast<double>(trained) : 0;
}

}  // namespace dsanalyze
