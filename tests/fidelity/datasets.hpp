#pragma once

#include <cstdint>

namespace dsanalyze::fidelity {

// The papers' datasets.

constexpr std::uint32_t imagenet_samples = 1'281'167;               ///< ILSVRC 2012
constexpr double imagenet_sample_bytes = 146e9 / imagenet_samples;  ///< [DS-Analyzer, Table 1]
constexpr double open_images_gb = 645;  ///< OpenImages-Extended, [DS-Analyzer, Table 1]; Config-SSD-V100 caches 65 % of it

}  // namespace dsanalyze::fidelity
