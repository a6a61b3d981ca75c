#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "result.hpp"

namespace dsanalyze {

/// How often and where loaders are stopped.
struct ResumeSettings {
  int epochs = 2;
  int runs = 10;
  int stops = 3;             ///< of each run
  std::vector<int> workers;  ///< num_workers from one stop to the next, in turn; empty: the script's own, 2, its own and 1
  std::uint64_t seed = 1;
};

/// "dsanalyze.resume/1": whether the loader of a script, stopped and resumed at random, loses or repeats samples.
struct ResumeResult {
  struct Fault {
    std::string what;    ///< "lost", "repeated", "repeated epoch", "skipped epoch"
    std::string sample;  ///< its number in the dataset, or a digest of its values
    std::uint64_t epoch = 0;
    std::uint64_t run = 0;      ///< with the seed, the same stops are drawn again
    std::vector<double> stops;  ///< after so many batches over all epochs; with a half where the pass had ended, too
  };
  ToolRecord tool;
  std::vector<std::string> command;
  ResumeSettings settings;
  std::string loader;                  ///< its class
  std::string dataset_class;           ///< empty: it has none
  std::string by;                      ///< how samples are told apart: indices of the dataset, or their values
  std::vector<std::uint64_t> workers;  ///< num_workers from one stop to the next, in turn; empty: it has no such number
  std::string
      workers_refused;  ///< why these are the script's own alone: its state does not load with another number; empty: they are those asked for
  std::uint64_t runs = 0, stops = 0, samples = 0, lost = 0, repeated = 0;
  bool same_order = false;     ///< every run gave the very batches of one that was not stopped, in their order
  std::optional<Fault> fault;  ///< the first sample that was lost or repeated

  [[nodiscard]] bool proved() const { return lost == 0 && repeated == 0; }
};

std::string to_json(const ResumeResult& result);

/// What a process of the command wrote of its loader: everything but tool, command and settings. Throws Error with what the loader or the proof
/// failed with, UsageError for another text.
ResumeResult resume_result_of(std::string_view text);

}  // namespace dsanalyze
