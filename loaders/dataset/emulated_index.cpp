#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "dataset.hpp"

namespace dsanalyze {
namespace {

/// A log-normal distribution by its mean and deviation: sigma^2 = ln(1 + (deviation / mean)^2), mu = ln(mean) - sigma^2 / 2.
struct LogNormal {
  double mu = 0;
  double sigma = 0;

  LogNormal(double mean, double relative_deviation) {
    const double variance = std::log1p(relative_deviation * relative_deviation);
    sigma = std::sqrt(variance);
    mu = std::log(mean) - variance / 2;
  }
  [[nodiscard]] double at(std::uint64_t key) const { return std::exp(mu + sigma * RandomStream(key).normal()); }
};

void check(const DatasetSpec& spec, std::uint64_t samples, double scale) {
  if (!std::isfinite(scale) || scale <= 0) throw UsageError(fmt::format("the scale of an emulated dataset must be greater than 0, not {}", scale));
  if (spec.mean_sample_bytes == 0) throw UsageError("the dataset '" + spec.name + "' has no mean_sample_bytes: it cannot be emulated");
  if (!std::isfinite(spec.sample_bytes_deviation) || spec.sample_bytes_deviation < 0) {
    throw UsageError(fmt::format("the dataset '{}' has sample_bytes_deviation {}: it must be 0 or greater", spec.name, spec.sample_bytes_deviation));
  }
  if (samples == 0) throw UsageError("the dataset '" + spec.name + "' has no samples: say how many with samples=N");
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() - 1;
  if (samples > most) throw UsageError(fmt::format("an emulated dataset has at most {} samples, not {}", most, samples));
}

}  // namespace

std::shared_ptr<const DatasetIndex> make_emulated_index(const DatasetSpec& spec, std::uint64_t samples, double scale, std::uint64_t seed) {
  const std::uint64_t count = samples > 0 ? samples : spec.samples;
  check(spec, count, scale);
  const std::uint64_t labels = std::max(spec.labels, 1U);
  const LogNormal sizes(static_cast<double>(spec.mean_sample_bytes), spec.sample_bytes_deviation);
  constexpr double most_bytes = 1e12;

  DatasetIndexBuilder builder;
  for (std::uint64_t label = 0; label < labels; ++label) builder.add_label(std::to_string(label));
  // One file holds all: an emulated device charges by request and length, and a name for each of 14 million samples would buy nothing.
  IndexRecord record;
  record.file = builder.add_file(spec.name);
  for (std::uint64_t sample = 0; sample < count; ++sample) {
    const double bytes = sizes.at(mix(seed, sample, 0x73697a65)) / scale;
    record.length = static_cast<std::uint64_t>(std::llround(std::clamp(bytes, 1.0, most_bytes)));
    record.label = static_cast<std::uint32_t>(sample * labels / count);
    builder.add_sample(record);
    record.offset += record.length;
  }
  DatasetIndex::Facts facts;
  facts.root = "emulated:" + spec.name;
  facts.format = "emulated";
  return std::move(builder).build(std::move(facts));
}

}  // namespace dsanalyze
