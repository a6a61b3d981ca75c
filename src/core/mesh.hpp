#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "batch.hpp"

namespace dsanalyze {

/// Devices in a grid, as a program sees them that divides its tensors over axes of the grid [Parax, section 3.2]: "2x4" has axes of 2 and 4, and
/// device 5 is at (1, 1).
struct Mesh {
  static constexpr std::uint32_t most_devices = 256;

  std::vector<std::uint32_t> axes;
  [[nodiscard]] std::uint32_t devices() const;
  /// Of a device along an axis.
  [[nodiscard]] std::uint32_t coordinate(std::uint32_t device, std::size_t axis) const;
};
/// "4", "2x2", "2x2x4". Throws UsageError.
Mesh parse_mesh(std::string_view text);
std::string mesh_text(const Mesh& mesh);

/// Over which axes of a mesh each dimension of a batch is divided, in this order; a dimension without an axis is whole on every device.
struct InputSharding {
  std::vector<std::vector<std::size_t>> dimensions;
};
/// "batch": the samples over all axes. "replicated": every device has all. Else a part for each dimension from the samples' number on, those left out
/// being whole: "S0,R,S1" divides the samples over axis 0 and the third dimension over axis 1; "S01" is over both axes, the second varying faster.
/// Throws UsageError for an axis that the mesh has not, or that is used twice.
InputSharding parse_input_sharding(std::string_view text, const Mesh& mesh);

/// Of one dimension, from `begin` to before `end`.
struct DimensionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t length() const { return end - begin; }
};

/// What of a sample one device has, for each dimension of a batch's tensor after the first.
struct DevicePart {
  std::uint32_t device = 0;
  std::array<DimensionRange, 3> ranges{};
};

/// What of a global batch goes to which device. Its samples are divided into slices, each a batch of its own for the loader; a slice goes to one or
/// more devices, which have all of its samples, whole or in part. A mesh is a layout and no other loader.
struct BatchLayout {
  std::vector<std::vector<DevicePart>> slices;

  /// One device a slice, which has whole samples.
  static BatchLayout identity(std::uint32_t devices, const TensorShape& tensor);
  /// Throws UsageError where a dimension has fewer elements than it is divided into.
  static BatchLayout of_mesh(const Mesh& mesh, const InputSharding& sharding, const TensorShape& tensor);
  [[nodiscard]] std::uint32_t devices() const;
};

/// How many slices the samples of a global batch are divided into.
std::uint32_t batch_slices(const Mesh& mesh, const InputSharding& sharding);

/// Runs of bytes that lie together in a batch: `count` of `bytes`, `stride` bytes apart, from `offset` on.
struct StridedBytes {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t stride = 0;
  std::size_t count = 0;
};
/// Where in a batch, from its samples' begin on, the part of all its samples lies, in the order in which the part is one dense tensor.
std::vector<StridedBytes> strides_of(const DevicePart& part, const TensorShape& tensor);
/// Bytes of the part of so many samples.
std::size_t part_bytes(const DevicePart& part, const TensorShape& tensor);

}  // namespace dsanalyze
