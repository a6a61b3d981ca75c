#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/batch.hpp"
#include "dsanalyze/dsanalyze.h"

namespace dsanalyze::client {

// Tensors and batches as dsanalyze.h has them.

inline dsa_dtype described(DType dtype) { return dtype == DType::float32 ? dsa_dtype{DSA_FLOAT, 32, 1} : dsa_dtype{DSA_UINT, 8, 1}; }

template <typename Described>
void describe_tensor(const TensorShape& tensor, Described& described_as) {
  described_as.dtype = described(tensor.dtype);
  described_as.ndim = tensor.dimensions;
  std::copy_n(tensor.shape.begin(), tensor.dimensions, described_as.shape);
  std::copy_n(tensor.strides.begin(), tensor.dimensions, described_as.strides);
}

/// All but its index and its token. `slot`: where its offsets count from.
inline void describe_batch(const Batch& batch, const std::byte* slot, dsa_batch& given) {
  const auto numbers = [slot](std::uint64_t offset) { return static_cast<const std::uint32_t*>(static_cast<const void*>(slot + offset)); };
  given.count = batch.count;
  given.failed = batch.failed;
  given.last_of_epoch = batch.last_of_epoch ? 1 : 0;
  given.epoch = batch.epoch;
  given.samples = slot + batch.samples_offset;
  given.ids = numbers(batch.ids_offset);
  given.labels = numbers(batch.labels_offset);
  describe_tensor(batch.tensor, given);
}

}  // namespace dsanalyze::client
