#include "batch.hpp"

#include <cassert>

namespace dsanalyze {

std::size_t dtype_bytes(DType dtype) { return dtype == DType::float32 ? 4 : 1; }

TensorShape TensorShape::of(DType dtype, std::span<const std::int64_t> dimensions) {
  TensorShape tensor;
  assert(!dimensions.empty() && dimensions.size() <= tensor.shape.size());
  tensor.dtype = dtype;
  tensor.dimensions = static_cast<std::uint8_t>(dimensions.size());
  std::int64_t stride = 1;
  for (std::size_t dimension = dimensions.size(); dimension-- > 0;) {
    tensor.shape[dimension] = dimensions[dimension];
    tensor.strides[dimension] = stride;
    stride *= dimensions[dimension];
  }
  return tensor;
}

TensorShape TensorShape::images(DType dtype, Layout layout, std::int64_t count, std::int64_t channels, std::int64_t height, std::int64_t width) {
  if (layout == Layout::nchw) return of(dtype, std::array{count, channels, height, width});
  return of(dtype, std::array{count, height, width, channels});
}

std::size_t TensorShape::sample_bytes() const {
  std::size_t elements = 1;
  for (std::size_t dimension = 1; dimension < dimensions; ++dimension) elements *= static_cast<std::size_t>(shape[dimension]);
  return elements * dtype_bytes(dtype);
}

}  // namespace dsanalyze
