#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "profiler.hpp"

namespace dsanalyze {

/// What is to be trained, and how it is found out.
struct PyTorchQuestion {
  std::filesystem::path script;   ///< _pytorch_rate.py
  std::filesystem::path folder;   ///< the caller's, private and empty
  std::string network;            ///< a name in torchvision.models
  std::string device;             ///< "cuda", "cpu", or empty: CUDA where PyTorch finds some
  int batch_size = 1;             ///< samples
  int crop_size = 224;            ///< pixels of each side
  double seconds = 10;            ///< how long steps are measured
  double patience_seconds = 300;  ///< until the end, at most
};

/// The rate of a network with the user's own PyTorch and a batch that is always there [DS-Analyzer, section 3.2]: starts `python3` (looked up in
/// PATH) and ends it. Throws UsageError when there is no python3; Error with what PyTorch said when it cannot train that, or does not come to an end
/// in time; Interrupted when asked to stop. No process is left in any case. Threads: one at a time.
MeasuredAccelerator measure_pytorch_rate(const PyTorchQuestion& question, const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
