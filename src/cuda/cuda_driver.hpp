#pragma once

#include <filesystem>
#include <memory>

#include "core/gpu.hpp"

namespace dsanalyze {

/// GPUs through NVIDIA's driver, which is opened here. `kernels` is the file of compiled kernels (dsanalyze-cuda.fatbin), read when a GPU is opened.
/// Throws UsageError that says what is missing: a driver, a GPU, the right to use it.
std::unique_ptr<GpuDriver> open_cuda_driver(const std::filesystem::path& kernels);

}  // namespace dsanalyze
