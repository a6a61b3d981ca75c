#include "dsanalyze/validate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "conclusion.hpp"
#include "dsanalyze/base/random.hpp"
#include "dsanalyze/base/storage_group.hpp"
#include "dsanalyze/models/profile_simulation.hpp"

namespace dsanalyze {
namespace {

constexpr double least_run_seconds = 10;
constexpr double epochs_in_a_run = 4;  ///< of the subset: the first, which fills the cache, and three to measure
constexpr double starting_seconds = 4;
constexpr double least_telling = 0.015;  ///< a smaller difference between runs says nothing about what binds

/// The limit that real storage needs to be as slow as the answer's; nullopt when it needs none.
std::optional<double> storage_limit(const ProfileResult& profile, const WhatIfAnswer& answer) {
  const bool slower = answer.change.storage_factor || answer.change.storage_bytes_per_s;
  if (!slower || profile.settings.storage != Seam::real || !profile.storage) return std::nullopt;
  return answer.storage * profile.dataset.mean_sample_bytes;
}

/// One set-up of the answers, and what it takes.
class Runs {
 public:
  Runs(const ProfileInputs& base, const ProfileResult& profile, EventSink& events, const std::stop_token& stop, Timing timing)
      : m_base(base), m_profile(profile), m_events(events), m_stop(stop), m_timing(timing) {}

  /// The run "full" (or "cached") of the answer's set-up.
  RunRecord run(const WhatIfAnswer& answer, const char* name, double seconds) {
    ProfileInputs inputs = m_base;
    inputs.settings = changed_settings(m_profile, answer).settings;
    inputs.settings.runs = {name};
    inputs.settings.time_budget_seconds = seconds;
    if (m_profile.dataset.subset_bytes > 0) inputs.settings.subset = ByteAmount{ByteAmount::Kind::bytes, m_profile.dataset.subset_bytes, 0};
    std::optional<StorageGroup> slower;
    if (const auto limit = storage_limit(m_profile, answer)) slower.emplace(inputs.index->facts().root, *limit);
    const ProfilePlan plan = plan_profile(inputs);
    const ProfileResult result = run_profile(inputs, plan, null_events(), m_stop, m_timing);
    for (const Finding& finding : result.findings)
      if (finding.severity == Finding::Severity::error && m_said.insert(finding.code).second) m_events.finding(finding);
    const RunRecord* record = result.run(name);
    return record != nullptr ? *record : RunRecord{};
  }

  /// Samples/s from memory, by cores, accelerators and batch size: run once for each.
  double cached(const WhatIfAnswer& answer, double seconds) {
    const ProfileSettings settings = changed_settings(m_profile, answer).settings;
    const auto key = std::make_tuple(settings.cores, settings.accelerators, settings.batch_size, settings.accelerator_rate);
    const auto known = m_cached.find(key);
    if (known != m_cached.end()) return known->second;
    return m_cached[key] = run(answer, "cached", seconds).samples_per_s;
  }

 private:
  const ProfileInputs& m_base;
  const ProfileResult& m_profile;
  EventSink& m_events;
  std::stop_token m_stop;
  Timing m_timing;
  std::map<std::tuple<int, int, int, double>, double> m_cached;
  std::set<std::string> m_said;  ///< codes of findings: once for all runs
};

/// What three epochs after the first take, and starting.
double needed_seconds(const ProfileResult& profile, const WhatIfAnswer& answer) {
  const double subset = static_cast<double>(profile.dataset.subset_samples > 0 ? profile.dataset.subset_samples : profile.dataset.samples);
  const double first = subset / std::min({answer.storage, answer.prep, answer.ingestion.value_or(answer.prep)});
  return std::max(least_run_seconds, starting_seconds + 1.3 * (first + (epochs_in_a_run - 1) * subset / answer.samples_per_s));
}

std::vector<std::size_t> random_order(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> permutation(count);
  random_permutation(mix(seed, 0x7a11da7e), permutation);
  return {permutation.begin(), permutation.end()};
}

std::string set_up_text(const WhatIfAnswer& answer, std::size_t at, std::size_t of) {
  return fmt::format("set-up {} of {}: predicted {} samples/s", at, of, format_number(prediction_of(answer).samples_per_s));
}

}  // namespace

std::string cannot_run(const ProfileInputs& base, const ProfileResult& profile, const WhatIfAnswer& answer) {
  const ChangedSettings changed = changed_settings(profile, answer);
  if (!changed.why_not.empty()) return changed.why_not;
  const ProfileSettings& settings = changed.settings;
  if (!answer.ingestion) return "without an accelerator nothing trains";
  if (settings.prep == Seam::real && settings.cores > static_cast<int>(base.host.cpus_allowed.size()))
    return fmt::format("this process may use {} cores", base.host.cpus_allowed.size());
  if (storage_limit(profile, answer) && profile.storage && answer.storage > profile.storage->samples_per_s * (1 + 1e-9))
    return "this machine's storage can be made slower, not faster";
  if (settings.cache == CacheKind::page && answer.change.cache_fraction)
    return "the kernel's page cache is held to a size by --memory-limit of a profile";
  try {
    ProfileInputs inputs = base;
    inputs.settings = settings;
    inputs.settings.runs = {"full"};
    plan_profile(inputs);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void validate(const ProfileInputs& base, const ProfileResult& profile, WhatIfResult& result, const ValidationOptions& options, EventSink& events,
              const std::stop_token& stop, Timing timing) {
  std::vector<WhatIfAnswer>& answers = result.answers;
  std::vector<std::size_t> order;
  for (const std::size_t i : random_order(answers.size(), profile.settings.seed)) {
    answers[i].not_measured = cannot_run(base, profile, answers[i]);
    if (answers[i].not_measured.empty() && i != 0) order.push_back(i);
  }
  const bool base_runs = !answers.empty() && answers[0].not_measured.empty();
  if (base_runs) order.insert(order.begin(), 0);
  double needed = 0;
  for (const std::size_t i : order) needed += needed_seconds(profile, answers[i]);
  const double share = options.seconds > 0 && needed > 0 ? options.seconds / needed : 1;
  events.note(
      fmt::format("validation: {} set-ups of {} are run here, about {} in all", order.size(), answers.size(), format_seconds(share * needed)));

  Runs runs(base, profile, events, stop, timing);
  double done = 0;
  const auto run = [&](std::size_t i) {
    const double seconds = share * needed_seconds(profile, answers[i]);
    events.progress({fmt::format("validation, {} set-ups", order.size()), needed > 0 ? done / (share * needed) : 0, share * needed - done});
    const RunRecord record = runs.run(answers[i], "full", seconds);
    done += seconds;
    return record;
  };
  for (std::size_t at = 0; at < order.size(); ++at) {
    WhatIfAnswer& answer = answers[order[at]];
    const RunRecord record = run(order[at]);
    if (record.samples_per_s <= 0) {
      answer.not_measured = "its run gave no rate in the time: pass a longer --time-budget";
      continue;
    }
    answer.measured = WhatIfAnswer::Measured{};
    answer.measured->samples_per_s = record.samples_per_s;
    answer.measured->ci95_samples_per_s = record.ci95_samples_per_s;
    answer.measured->windows = record.windows;
    answer.measured->void_windows = record.void_windows;
    const double cached = runs.cached(answer, std::max(least_run_seconds, share * least_run_seconds));
    judge(answer, measured_verdict(record.samples_per_s, std::max(cached, record.samples_per_s), *answer.ingestion, least_telling));
    events.note(fmt::format("{}, measured {} ({:+.1f} %)", set_up_text(answer, at + 1, order.size()), format_number(record.samples_per_s),
                            100 * answer.measured->error));
  }
  double drift = 0;
  if (base_runs && answers[0].measured && order.size() > 1) drift = run(0).samples_per_s / answers[0].measured->samples_per_s - 1;
  result.validation = conclude_validation(answers, drift, options);
}

}  // namespace dsanalyze
