#pragma once

#include <cstddef>
#include <span>

#include "core/batch.hpp"
#include "core/workload.hpp"
#include "kernels.hpp"

namespace dsanalyze {

/// The kernels for this processor.
const NormaliseKernels& best_normalise_kernels();

/// Writes resized rows into a sample's place in the batch: float32 as (value / 255 - mean) / deviation, uint8 as it is; planes (nchw) or pixels
/// (nhwc). Threads: any.
class Normaliser {
 public:
  Normaliser(const ImagePrep& prep, DType dtype, Layout layout, const NormaliseKernels& kernels = best_normalise_kernels());
  /// Requires room for the whole sample in `sample`.
  void write(const SampleRows& rows, std::span<std::byte> sample) const;
  /// Scales and offsets of the colours; the place is left empty.
  [[nodiscard]] const SampleTarget& target() const { return m_target; }

 private:
  NormaliseKernels::Write m_write;
  SampleTarget m_target;
};

}  // namespace dsanalyze
