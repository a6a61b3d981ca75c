#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/mesh.hpp"

using namespace dsanalyze;

namespace {

/// A batch whose elements are their own numbers, as float32 or bytes.
std::vector<std::byte> numbered(const TensorShape& tensor) {
  const std::size_t bytes = tensor.sample_bytes() * static_cast<std::size_t>(tensor.shape[0]);
  std::vector<std::byte> batch(bytes);
  for (std::size_t i = 0; i < bytes; ++i) batch[i] = static_cast<std::byte>((i * 31 + i / 251) & 0xff);
  return batch;
}

std::vector<std::byte> gathered(const std::vector<std::byte>& batch, const DevicePart& part, const TensorShape& tensor) {
  std::vector<std::byte> dense;
  for (const StridedBytes& runs : strides_of(part, tensor))
    for (std::size_t i = 0; i < runs.count; ++i) {
      const auto from = batch.begin() + static_cast<std::ptrdiff_t>(runs.offset + i * runs.stride);
      dense.insert(dense.end(), from, from + static_cast<std::ptrdiff_t>(runs.bytes));
    }
  return dense;
}

/// The part element by element, as its ranges say.
std::vector<std::byte> by_elements(const std::vector<std::byte>& batch, const DevicePart& part, const TensorShape& tensor) {
  const std::size_t element = dtype_bytes(tensor.dtype);
  std::vector<std::byte> dense;
  const auto range = [&](std::size_t dimension) {
    if (dimension == 0) return DimensionRange{0, tensor.shape[0]};
    return dimension < tensor.dimensions ? part.ranges[dimension - 1] : DimensionRange{0, 1};
  };
  for (auto n = range(0).begin; n < range(0).end; ++n)
    for (auto a = range(1).begin; a < range(1).end; ++a)
      for (auto b = range(2).begin; b < range(2).end; ++b)
        for (auto c = range(3).begin; c < range(3).end; ++c) {
          std::int64_t at = n * tensor.strides[0];
          if (tensor.dimensions > 1) at += a * tensor.strides[1];
          if (tensor.dimensions > 2) at += b * tensor.strides[2];
          if (tensor.dimensions > 3) at += c * tensor.strides[3];
          const auto from = batch.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * element);
          dense.insert(dense.end(), from, from + static_cast<std::ptrdiff_t>(element));
        }
  return dense;
}

}  // namespace

TEST_CASE("devices of a mesh are numbered along its last axis first") {
  const Mesh mesh = parse_mesh("2x4");
  CHECK(mesh.devices() == 8);
  CHECK(mesh.coordinate(5, 0) == 1);
  CHECK(mesh.coordinate(5, 1) == 1);
  CHECK(mesh_text(mesh) == "2x4");
  CHECK(parse_mesh("4").devices() == 4);
}

TEST_CASE("what is no mesh or no sharding of it is refused by name") {
  for (const char* const text : {"", "0", "2x", "x2", "2x2x2x2x2", "axb", "-2", "1000", "2 x 2"}) CHECK_THROWS_AS(parse_mesh(text), UsageError);
  CHECK_THROWS_WITH(parse_mesh("32x32"), doctest::Contains("at most 256"));
  const Mesh mesh = parse_mesh("2x2");
  for (const char* const text : {"", "S", "S2", "S0,S0", "R,R,R,R,R", "s0", "S0;R", "everything", "S00"})
    CHECK_THROWS_AS(parse_input_sharding(text, mesh), UsageError);
  const TensorShape tensor = TensorShape::images(DType::uint8, Layout::nchw, 4, 3, 8, 8);
  CHECK_THROWS_WITH(BatchLayout::of_mesh(parse_mesh("4"), parse_input_sharding("R,S0", parse_mesh("4")), tensor),
                    doctest::Contains("cannot be divided into 4"));
  const std::array<std::int64_t, 2> rows{4, 10};
  CHECK_THROWS_WITH(BatchLayout::of_mesh(mesh, parse_input_sharding("S0,R,R,S1", mesh), TensorShape::of(DType::uint8, rows)),
                    doctest::Contains("have 2 dimensions"));
}

TEST_CASE("slices of the paper's 2x2: two devices share each half of the batch") {
  const Mesh mesh = parse_mesh("2x2");
  const TensorShape tensor = TensorShape::images(DType::float32, Layout::nchw, 8, 3, 4, 4);
  const BatchLayout layout = BatchLayout::of_mesh(mesh, parse_input_sharding("S0", mesh), tensor);
  REQUIRE(layout.slices.size() == 2);
  REQUIRE(layout.slices[1].size() == 2);
  CHECK(layout.slices[1][0].device == 2);
  CHECK(layout.slices[1][1].device == 3);
  CHECK(layout.devices() == 4);
  CHECK(part_bytes(layout.slices[1][0], tensor) == tensor.sample_bytes() * 8);
  CHECK(BatchLayout::of_mesh(mesh, parse_input_sharding("batch", mesh), tensor).slices.size() == 4);
  CHECK(BatchLayout::of_mesh(mesh, parse_input_sharding("replicated", mesh), tensor).slices.size() == 1);
  // "S10": axis 0 varies faster.
  const BatchLayout turned = BatchLayout::of_mesh(mesh, parse_input_sharding("S10", mesh), tensor);
  CHECK(turned.slices[1][0].device == 2);
}

TEST_CASE("the parts of every sharding, put together, are the batch: once for each of the devices that share it") {
  const std::vector<std::string> meshes{"1", "2", "3", "4", "2x2", "2x3", "4x2", "2x2x2", "4x4", "16", "2x8"};
  const std::vector<std::string> specs{"batch",     "replicated", "S0",        "R,S0",    "R,R,S0",    "R,R,R,S0",
                                       "S0,R,R,S1", "S1,R,S0,R",  "R,R,S0,S1", "R,R,S01", "R,R,S1,S0", "R,S2,S0,S1"};
  int tried = 0;
  for (const auto& [order, dtype] : {std::pair{Layout::nchw, DType::float32}, std::pair{Layout::nhwc, DType::uint8}}) {
    const TensorShape tensor = TensorShape::images(dtype, order, 2, 16, 16, 17);
    const std::vector<std::byte> batch = numbered(tensor);
    for (const std::string& shape : meshes)
      for (const std::string& spec : specs) {
        const Mesh mesh = parse_mesh(shape);
        const bool fits = spec.find('2') == std::string::npos ? (spec.find('1') == std::string::npos || mesh.axes.size() > 1) : mesh.axes.size() > 2;
        if (!fits) continue;
        CAPTURE(shape);
        CAPTURE(spec);
        ++tried;
        const BatchLayout layout = BatchLayout::of_mesh(mesh, parse_input_sharding(spec, mesh), tensor);
        CHECK(layout.devices() == mesh.devices());
        std::vector<int> seen(mesh.devices());
        for (const auto& slice : layout.slices) {
          // Of one slice, every element is on as many devices as every other one.
          std::vector<int> held(batch.size() / dtype_bytes(dtype));
          for (const DevicePart& part : slice) {
            ++seen[part.device];
            const auto dense = gathered(batch, part, tensor);
            CHECK(dense.size() == part_bytes(part, tensor));
            CHECK(dense == by_elements(batch, part, tensor));
            for (auto n = 0; n < tensor.shape[0]; ++n)
              for (auto a = part.ranges[0].begin; a < part.ranges[0].end; ++a)
                for (auto b = part.ranges[1].begin; b < part.ranges[1].end; ++b)
                  for (auto c = part.ranges[2].begin; c < part.ranges[2].end; ++c)
                    ++held[static_cast<std::size_t>(n * tensor.strides[0] + a * tensor.strides[1] + b * tensor.strides[2] + c * tensor.strides[3])];
          }
          CHECK(std::all_of(held.begin(), held.end(), [&](int count) { return count == held.front() && count > 0; }));
        }
        CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
      }
  }
  CHECK(tried > 100);
}
