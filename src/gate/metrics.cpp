#include "metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::gate {
namespace {

const std::string never_gated = "G";
constexpr double normal_95 = 1.96;  ///< half of a 95 % interval, in standard errors

MetricValue rate_value(const std::optional<RateRecord>& rate) {
  if (!rate) return {std::nullopt, "was not measured"};
  return {rate->samples_per_s, "", relative_error(*rate) / normal_95};
}

MetricValue run_value(const RunRecord* run) {
  if (run == nullptr) return {std::nullopt, "the run was not made"};
  if (!(run->samples_per_s > 0)) return {std::nullopt, "the run made 0 samples/s, so that no ratio can be taken"};
  const Interval own = known_interval(*run);
  return {run->samples_per_s, "", (own.high - own.low) / 2 / run->samples_per_s / normal_95};
}

MetricValue stall_value(const ProfileResult& profile, StallRecord ProfileResult::Stalls::*which) {
  if (!profile.stalls) return {std::nullopt, "is not known without an accelerator (--accelerator) and the runs cached and full"};
  const StallRecord& stall = (*profile.stalls).*which;
  return {stall.fraction, "", (stall.ci95_fraction.high - stall.ci95_fraction.low) / 2 / normal_95};
}

/// With what the full run lost to interference: whether that has a name of its own turns on its interval, and may differ between equal runs.
MetricValue fetch_stall_value(const ProfileResult& profile) {
  MetricValue value = stall_value(profile, &ProfileResult::Stalls::fetch);
  if (value.value && profile.stalls->interference) *value.value += profile.stalls->interference->fraction;
  return value;
}

}  // namespace

const std::vector<MetricKind>& metric_kinds() {
  using enum GateScale;
  static const std::vector<MetricKind> kinds = {
      {"P", "prep can supply", ratio, Worse::lower, true, 1},
      {"C", "the cache can supply", ratio, Worse::lower, false, 0.25},
      {"S", "storage can supply", ratio, Worse::lower, true, 0.5},
      {"N", "others' caches can supply", ratio, Worse::lower, false, 0.5},
      {"F", "fetch (cache and storage)", ratio, Worse::lower, false, 0.25},
      {"cached", "training from a warm cache", ratio, Worse::lower, true, 1},
      {"full", "training as it is", ratio, Worse::lower, true, 1},
      {"prep-stall", "of the epoch, waits for prep", difference, Worse::higher, true, 0.25},
      {"fetch-stall", "of the epoch, waits for fetch", difference, Worse::higher, true, 0.25},
  };
  return kinds;
}

const MetricKind& metric_kind(const std::string& name) {
  return *std::ranges::find_if(metric_kinds(), [&name](const MetricKind& kind) { return kind.name == name; });
}

std::vector<MetricKind> chosen_metrics(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const MetricKind& kind : metric_kinds()) known.push_back(kind.name);
  for (const std::string& name : names) {
    if (name == never_gated)
      throw UsageError(
          "--metrics: G is never gated: what emulated accelerators train at was asked for and not measured, and what the CPU trains at is no "
          "accelerator's; gate cached and full");
    if (name == "all" || std::ranges::find(known, name) != known.end()) continue;
    throw UsageError(fmt::format("--metrics: found \"{}\", expected {} or all{}", name, fmt::join(known, ", "), did_you_mean(name, known)));
  }
  const auto named = [&names](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  std::vector<MetricKind> chosen;
  for (const MetricKind& kind : metric_kinds())
    if (names.empty() ? kind.by_default : named("all") || named(kind.name)) chosen.push_back(kind);
  return chosen;
}

MetricValue metric_value(const ProfileResult& profile, const MetricKind& kind) {
  if (kind.name == "P") return rate_value(profile.prep);
  if (kind.name == "C") return rate_value(profile.cache);
  if (kind.name == "S") return rate_value(profile.storage);
  if (kind.name == "N")
    return profile.network ? rate_value(profile.network) : MetricValue{std::nullopt, "is of ranks that part the dataset (--partition)"};
  if (kind.name == "F") return rate_value(profile.fetch);
  if (kind.name == "prep-stall") return stall_value(profile, &ProfileResult::Stalls::prep);
  if (kind.name == "fetch-stall") return fetch_stall_value(profile);
  return run_value(profile.run(kind.name));
}

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
