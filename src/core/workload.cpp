#include "workload.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"

namespace dsanalyze {
namespace {

void require_in(std::string_view field, double value, double low, double high) {
  if (!(value >= low && value <= high)) throw UsageError(fmt::format("prep: {}: found {}, expected a number in [{}, {}]", field, value, low, high));
}

void require_range(std::string_view field, const std::array<double, 2>& range, double low, double high) {
  require_in(field, range[0], low, high);
  require_in(field, range[1], low, high);
  if (range[0] > range[1]) throw UsageError(fmt::format("prep: {}: found {} before {}, expected the smaller first", field, range[0], range[1]));
}

}  // namespace

std::string provenance_name(Provenance provenance) { return enum_name(provenance); }

void ImagePrep::validate() const {
  require_in("crop/size", crop_size, 1, 4096);
  require_range("crop/scale", scale, 1e-4, 1);
  require_range("crop/ratio", ratio, 0.01, 100);
  require_in("flip_probability", flip_probability, 0, 1);
  for (const double value : mean) require_in("mean", value, 0, 1);
  for (const double value : deviation) require_in("deviation", value, 1e-3, 1);
}

StorageSpec storage_from_bandwidth(double bytes_per_second) {
  const std::string source = "given on the command line";
  StorageSpec storage;
  storage.name = fmt::format("{:g} MB/s", bytes_per_second / 1e6);
  storage.bandwidth_bytes_per_s = {bytes_per_second, Provenance::assumed, source};
  storage.request_latency_seconds = {0, Provenance::assumed, source};
  return storage;
}

}  // namespace dsanalyze
