#include "normalizing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::gate {
namespace {

bool prep_binds_full(const ProfileResult& profile) { return profile.bottleneck && profile.bottleneck->detail == "prep"; }

/// From a warm cache nothing but prep and the accelerators can bind, by much.
bool prep_binds_cached(const ProfileResult& profile) {
  return profile.prep && (!profile.ingestion || profile.prep->samples_per_s < profile.ingestion->samples_per_s);
}

NormalizingRule where_prep_binds(bool (*binds)(const ProfileResult&), std::span<const GateRun> baseline, std::span<const GateRun> current) {
  for (const std::span<const GateRun> runs : {baseline, current})
    for (const GateRun& run : runs)
      if (!binds(run.profile))
        return {Normalizing::left_out, fmt::format("prep does not bind in {}, so the CPU's speed does not explain it", run.source)};
  return {Normalizing::divided, ""};
}

}  // namespace

void require_calibrations(std::span<const GateRun> baseline, std::span<const GateRun> current) {
  for (const std::span<const GateRun> runs : {baseline, current})
    for (const GateRun& run : runs) {
      if (run.profile.host.calibration_passes_per_s) continue;
      const std::string source = printable(run.source);
      throw UsageError(
          run.profile.settings.prep == Seam::real
              ? fmt::format("--normalize: {} has no calibration of its CPU (host.calibration_passes_per_s): profile again with this version", source)
              : fmt::format("--normalize: prep is not real in {}, so no CPU was calibrated and its rates do not depend on one: compare without it",
                            source));
    }
}

double mean_calibration(std::span<const GateRun> runs) {
  double sum = 0;
  for (const GateRun& run : runs) sum += run.profile.host.calibration_passes_per_s.value_or(0);
  return sum / static_cast<double>(runs.size());
}

NormalizingRule normalizing_rule(const MetricKind& kind, std::span<const GateRun> baseline, std::span<const GateRun> current) {
  if (kind.name == "P") return {Normalizing::divided, ""};
  if (kind.name == "S") return {Normalizing::as_it_is, ""};
  if (kind.name == "cached") return where_prep_binds(prep_binds_cached, baseline, current);
  if (kind.name == "full") return where_prep_binds(prep_binds_full, baseline, current);
  return {Normalizing::left_out, "it depends on the CPU's speed in a way that --normalize does not cover"};
}

bool is_covered_by_normalizing(const std::string& field) {
  static const std::array<std::string, 3> fields = {"host.cpu_model", "host.kernel", "host.memory_total"};
  return std::ranges::find(fields, field) != fields.end();
}

}  // namespace dsanalyze::gate
