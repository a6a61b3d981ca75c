#include "dsanalyze/core/batch.hpp"

namespace dsanalyze {

std::size_t dtype_bytes(DType dtype) { return dtype == DType::float32 ? 4 : 1; }

TensorShape TensorShape::images(DType dtype, Layout layout, std::int64_t count, std::int64_t channels, std::int64_t height, std::int64_t width) {
  TensorShape tensor;
  tensor.dtype = dtype;
  tensor.dimensions = 4;
  if (layout == Layout::nchw) {
    tensor.shape = {count, channels, height, width};
  } else {
    tensor.shape = {count, height, width, channels};
  }
  std::int64_t stride = 1;
  for (std::size_t dimension = tensor.shape.size(); dimension-- > 0;) {
    tensor.strides[dimension] = stride;
    stride *= tensor.shape[dimension];
  }
  return tensor;
}

std::size_t TensorShape::sample_bytes() const {
  std::size_t elements = 1;
  for (std::size_t dimension = 1; dimension < dimensions; ++dimension) elements *= static_cast<std::size_t>(shape[dimension]);
  return elements * dtype_bytes(dtype);
}

}  // namespace dsanalyze
