#include "core/batch.hpp"

#include <doctest/doctest.h>

using namespace dsanalyze;

TEST_CASE("an NCHW batch lies channel by channel, an NHWC batch pixel by pixel") {
  const TensorShape planes = TensorShape::images(DType::float32, Layout::nchw, 8, 3, 224, 200);
  CHECK(planes.shape == std::array<std::int64_t, 4>{8, 3, 224, 200});
  CHECK(planes.strides == std::array<std::int64_t, 4>{134'400, 44'800, 200, 1});
  const TensorShape pixels = TensorShape::images(DType::uint8, Layout::nhwc, 8, 3, 224, 200);
  CHECK(pixels.shape == std::array<std::int64_t, 4>{8, 224, 200, 3});
  CHECK(pixels.strides == std::array<std::int64_t, 4>{134'400, 600, 3, 1});
}

TEST_CASE("a tensor of any shape is dense and row-major, and what it lacks in dimensions stays zero") {
  const TensorShape rows = TensorShape::of(DType::float32, std::array<std::int64_t, 2>{7, 5});
  CHECK(rows.dimensions == 2);
  CHECK(rows.shape == std::array<std::int64_t, 4>{7, 5, 0, 0});
  CHECK(rows.strides == std::array<std::int64_t, 4>{5, 1, 0, 0});
  CHECK(rows.sample_bytes() == 20);
  CHECK(TensorShape::of(DType::float32, std::array<std::int64_t, 1>{7}).sample_bytes() == 4);
}

TEST_CASE("a sample's bytes do not depend on the layout or on the number of samples") {
  CHECK(TensorShape::images(DType::float32, Layout::nchw, 0, 3, 224, 224).sample_bytes() == 3 * 224 * 224 * 4);
  CHECK(TensorShape::images(DType::uint8, Layout::nhwc, 512, 3, 224, 224).sample_bytes() == 3 * 224 * 224);
}
