#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// Epochs of all jobs of a mix together, at most: what it takes to simulate them goes with it.
constexpr std::uint64_t max_mix_epochs = 10'000;

/// What `dsanalyze whatif --job-mix FILE` is asked about: jobs of one dataset that differ.
struct JobMix {
  struct Job {
    std::string name;                     ///< "job 0" and so on, where the file has none
    std::optional<double> samples_per_s;  ///< that it trains on when no batch is waited for
    std::optional<double> speed_ratio;    ///< or the same over G, the ingestion rate of the measured rates
    double arrival_seconds = 0;
    std::string subset;  ///< of the dataset, as parse_subset_ranges() reads it; empty: all
    std::uint32_t batch_size = 0;
    std::uint32_t epochs = 1;
  };
  std::optional<std::uint32_t> samples;  ///< of the dataset; not given: those of the measured rates
  std::vector<Job> jobs;                 ///< 1 to max_mix_jobs
};
constexpr std::size_t max_mix_jobs = 64;

/// Throws UsageError that names file, JSON pointer, what was found and what was expected. Unknown keys are errors. Subsets are the caller's to parse,
/// who knows how many samples there are; subset_error() words what is wrong with one.
JobMix parse_job_mix(std::string_view text, const std::string& source);
/// "mix.json: /jobs/2/subset: ..."
std::string subset_error(const std::string& source, std::size_t job, const std::string& what);

}  // namespace dsanalyze
