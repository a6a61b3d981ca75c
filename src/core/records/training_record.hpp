#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dsanalyze {

/// What a network learned in one run, so that runs can be compared: of the same seed and order, losses are the same to the last bit.
struct TrainingRecord {
  struct StepLoss {
    std::uint64_t step = 0;  ///< counts the run's global mini-batches from 0
    double loss = 0;         ///< mean over the mini-batch, before its step
    bool operator==(const StepLoss&) const = default;
  };
  struct EpochLoss {
    std::uint64_t epoch = 0;
    std::uint64_t samples = 0;  ///< trained on in this run; fewer than the others have where the run ended within the epoch
    double loss = 0;            ///< mean over these samples, each before the step that it is part of
    bool operator==(const EpochLoss&) const = default;
  };
  static constexpr std::size_t most_steps = 1000;
  static constexpr std::size_t most_epochs = 200;

  std::string precision;  ///< float, double
  std::uint32_t inputs = 0, hidden = 0, classes = 0;
  std::uint64_t parameters = 0;
  double learning_rate = 0;
  double momentum = 0;
  std::uint64_t steps = 0;          ///< made in this run
  std::vector<StepLoss> by_step;    ///< at most most_steps: of all steps, or of every 2nd, 4th, 8th, ..., the first among them
  std::vector<EpochLoss> by_epoch;  ///< of more than most_epochs the first and the last ones
};

}  // namespace dsanalyze
