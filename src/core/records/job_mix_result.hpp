#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsanalyze {

/// What `dsanalyze whatif --job-mix` predicts of jobs that differ: a part of "dsanalyze.whatif/1".
struct WhatIfJobMix {
  std::string path;           ///< of the file
  std::uint64_t samples = 0;  ///< of the dataset
  double prep = 0;            ///< P of the server, samples/s
  double fetch = 0;           ///< F of one sweep that serves all jobs
  struct Asked {
    std::string name;
    double samples_per_s = 0;  ///< that it trains on when it waits for nothing
    double arrival_seconds = 0;
    std::uint64_t epoch_samples = 0;
    std::uint32_t batch_size = 1;
    std::uint32_t epochs = 1;
  };
  std::vector<Asked> jobs;
  struct Job {
    double samples_per_s = 0;
    double completion_seconds = 0;   ///< from its arrival to the end of its last epoch
    double prepared_per_sample = 0;  ///< preparings that its draws caused, one for several jobs in equal parts, over its samples
  };
  struct Answer {
    std::string share;                       ///< none, coordinated, dependent
    std::optional<double> staging_fraction;  ///< of dependent: of the dataset's samples
    std::string staging_policy;              ///< refcnt, lru; empty: not of dependent
    std::string method;                      ///< "closed form" or "simulated"; empty: not predicted
    std::string not_predicted;               ///< the reason, a clause
    double scale = 1;                        ///< of simulated: one sample stands for so many
    std::vector<Job> jobs;                   ///< in the order of the file
    double prepared_per_sample = 0;          ///< over the samples of all jobs
    double prepared_per_fastest = 0;         ///< preparings of all jobs while the fastest runs, over that job's samples
    double from_store_fraction = 0;          ///< of the samples of all jobs, those that came from the store
    double mean_completion_seconds = 0;
    double makespan_seconds = 0;  ///< from the first arrival to the last end
  };
  std::vector<Answer> answers;
};

}  // namespace dsanalyze
