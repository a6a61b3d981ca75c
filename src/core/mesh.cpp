#include "mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_axes = 4;

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// A dimension's elements that belong to one of `parts` places: as equal as whole elements can be.
DimensionRange share_of(std::int64_t elements, std::uint32_t place, std::uint32_t parts) {
  return {elements * place / parts, elements * (place + 1) / parts};
}

/// Into how many parts these axes divide, and which of them a device has.
struct Place {
  std::uint32_t number = 0;
  std::uint32_t of = 1;
};
Place place_of(const Mesh& mesh, const std::vector<std::size_t>& axes, std::uint32_t device) {
  Place place;
  for (const std::size_t axis : axes) {
    place.number = place.number * mesh.axes[axis] + mesh.coordinate(device, axis);
    place.of *= mesh.axes[axis];
  }
  return place;
}

bool is_whole(const DimensionRange& range, std::int64_t elements) { return range.begin == 0 && range.end == elements; }

}  // namespace

std::uint32_t Mesh::devices() const { return std::accumulate(axes.begin(), axes.end(), 1U, std::multiplies<>()); }

std::uint32_t Mesh::coordinate(std::uint32_t device, std::size_t axis) const {
  for (std::size_t after = axes.size() - 1; after > axis; --after) device /= axes[after];
  return device % axes[axis];
}

Mesh parse_mesh(std::string_view text) {
  Mesh mesh;
  std::uint64_t devices = 1;
  for (const std::string& part : split_at(text, 'x')) {
    const bool digits = !part.empty() && part.size() <= 3 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    const int length = digits ? std::stoi(part) : 0;
    if (length < 1 || mesh.axes.size() == most_axes)
      throw UsageError(fmt::format("--mesh: found \"{}\", expected the lengths of one to {} axes: 4, 2x2 or 2x2x4", printable(text), most_axes));
    mesh.axes.push_back(static_cast<std::uint32_t>(length));
    devices *= static_cast<std::uint64_t>(length);
  }
  if (devices > Mesh::most_devices)
    throw UsageError(fmt::format("--mesh {}: has {} devices, and at most {} are fed", printable(text), devices, Mesh::most_devices));
  return mesh;
}

std::string mesh_text(const Mesh& mesh) { return fmt::format("{}", fmt::join(mesh.axes, "x")); }

InputSharding parse_input_sharding(std::string_view text, const Mesh& mesh) {
  InputSharding sharding;
  if (text == "replicated") return sharding;
  if (text == "batch") {
    std::vector<std::size_t> all(mesh.axes.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    sharding.dimensions.push_back(std::move(all));
    return sharding;
  }
  constexpr std::size_t most_dimensions = 4;
  std::vector<bool> used(mesh.axes.size());
  for (const std::string& part : split_at(text, ',')) {
    const bool divides =
        part.size() >= 2 && part.front() == 'S' && std::all_of(part.begin() + 1, part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if ((part != "R" && !divides) || sharding.dimensions.size() == most_dimensions)
      throw UsageError(fmt::format(
          "--input-sharding: found \"{}\", expected batch, replicated, or for each dimension R (whole) or S and its axes of the mesh: S0,R,R,S1",
          printable(text)));
    std::vector<std::size_t>& axes = sharding.dimensions.emplace_back();
    for (const char c : part.substr(1)) {
      const auto axis = static_cast<std::size_t>(c - '0');
      if (axis >= mesh.axes.size())
        throw UsageError(fmt::format("--input-sharding {}: the mesh {} has no axis {}; they count from 0", printable(text), mesh_text(mesh), axis));
      if (used[axis]) throw UsageError(fmt::format("--input-sharding {}: axis {} divides two dimensions", printable(text), axis));
      used[axis] = true;
      axes.push_back(axis);
    }
  }
  return sharding;
}

std::uint32_t batch_slices(const Mesh& mesh, const InputSharding& sharding) {
  return sharding.dimensions.empty() ? 1 : place_of(mesh, sharding.dimensions.front(), 0).of;
}

BatchLayout BatchLayout::identity(std::uint32_t devices, const TensorShape& tensor) {
  Mesh row{{devices}};
  return of_mesh(row, InputSharding{{{0}}}, tensor);
}

BatchLayout BatchLayout::of_mesh(const Mesh& mesh, const InputSharding& sharding, const TensorShape& tensor) {
  BatchLayout layout;
  layout.slices.resize(batch_slices(mesh, sharding));
  for (std::uint32_t device = 0; device < mesh.devices(); ++device) {
    DevicePart part{device, {}};
    for (std::size_t i = 0; i < part.ranges.size(); ++i) {
      const std::size_t dimension = i + 1;
      if (dimension >= tensor.dimensions) continue;
      const std::int64_t elements = tensor.shape[dimension];
      const Place place = dimension < sharding.dimensions.size() ? place_of(mesh, sharding.dimensions[dimension], device) : Place{};
      if (place.of > elements)
        throw UsageError(fmt::format("--input-sharding: dimension {} has {} elements and cannot be divided into {}", dimension, elements, place.of));
      part.ranges[i] = share_of(elements, place.number, place.of);
    }
    for (std::size_t dimension = tensor.dimensions; dimension < sharding.dimensions.size(); ++dimension)
      if (!sharding.dimensions[dimension].empty())
        throw UsageError(
            fmt::format("--input-sharding: batches have {} dimensions, and dimension {} is to be divided", tensor.dimensions, dimension));
    const std::uint32_t slice = sharding.dimensions.empty() ? 0 : place_of(mesh, sharding.dimensions.front(), device).number;
    layout.slices[slice].push_back(part);
  }
  return layout;
}

std::uint32_t BatchLayout::devices() const {
  std::size_t count = 0;
  for (const auto& slice : slices) count += slice.size();
  return static_cast<std::uint32_t>(count);
}

std::size_t part_bytes(const DevicePart& part, const TensorShape& tensor) {
  std::int64_t elements = tensor.shape[0];
  for (std::size_t i = 0; i + 1 < tensor.dimensions; ++i) elements *= part.ranges[i].length();
  return static_cast<std::size_t>(elements) * dtype_bytes(tensor.dtype);
}

/// From the innermost dimension that is divided on, elements lie together. Where it is the only one, runs of all samples are equally far apart; else
/// each place in the dimensions before has runs of its own.
std::vector<StridedBytes> strides_of(const DevicePart& part, const TensorShape& tensor) {
  const std::size_t element = dtype_bytes(tensor.dtype);
  const auto samples = static_cast<std::size_t>(tensor.shape[0]);
  std::size_t innermost = 0;
  std::size_t divided = 0;
  for (std::size_t dimension = 1; dimension < tensor.dimensions; ++dimension) {
    if (is_whole(part.ranges[dimension - 1], tensor.shape[dimension])) continue;
    innermost = dimension;
    ++divided;
  }
  const auto stride_bytes = [&](std::size_t dimension) { return static_cast<std::size_t>(tensor.strides[dimension]) * element; };
  if (divided == 0) return {{0, tensor.sample_bytes() * samples, tensor.sample_bytes() * samples, 1}};
  const DimensionRange& inner = part.ranges[innermost - 1];
  const std::size_t run = static_cast<std::size_t>(inner.length()) * stride_bytes(innermost);
  const std::size_t first = static_cast<std::size_t>(inner.begin) * stride_bytes(innermost);
  const std::size_t apart = stride_bytes(innermost - 1);
  if (divided == 1) return {{first, run, apart, samples * (tensor.sample_bytes() / (innermost == 1 ? tensor.sample_bytes() : apart))}};
  std::vector<StridedBytes> all;
  const auto add = [&](const auto& next, std::size_t dimension, std::size_t offset) -> void {
    const DimensionRange range = dimension == 0 ? DimensionRange{0, tensor.shape[0]} : part.ranges[dimension - 1];
    if (dimension + 1 == innermost) {
      all.push_back({offset + static_cast<std::size_t>(range.begin) * apart + first, run, apart, static_cast<std::size_t>(range.length())});
      return;
    }
    for (std::int64_t at = range.begin; at < range.end; ++at)
      next(next, dimension + 1, offset + static_cast<std::size_t>(at) * stride_bytes(dimension));
  };
  add(add, 0, 0);
  return all;
}

}  // namespace dsanalyze
