#include "runs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "pilot.hpp"
#include "run_support.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_rounds = 3;
constexpr double least_trial_seconds = 0.05;

/// Samples a second, cold, for about so long; 0 when this way does not work here (a file system without direct I/O).
double trial_rate(RunContext& pilot, const FetchWay& way, double seconds) {
  pilot.way = way;
  make_cold(pilot);
  Pipeline pipeline(pilot.inputs, run_spec(pilot, CacheKind::none, 0), pilot.timing);
  auto loader = pipeline.make_loader({.prep = PrepUse::none});
  auto trainer = make_null_trainer();
  const Nanoseconds begun = pilot.timing.clock->now();
  try {
    const TrainingLog log = train(
        *loader, *trainer, [&](const TrainingLog&) { return to_seconds(pilot.timing.clock->now() - begun) >= seconds; }, pilot.stop, pilot.timing);
    return static_cast<double>(loader->totals().fetch.samples) / to_seconds(log.ended - begun);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return 0;
  }
}

std::vector<FetchWay> ways_to_try(const ProfileSettings& settings, bool uring_usable) {
  std::vector<FetchWay> ways;
  for (const IoEngine engine : {IoEngine::pread, IoEngine::uring}) {
    if (engine == IoEngine::uring && !uring_usable) continue;
    if (settings.read_mode == ReadMode::buffered) ways.push_back({engine, ReadMode::buffered});
    if (settings.cache != CacheKind::page) ways.push_back({engine, ReadMode::direct});
  }
  return ways;
}

FetchWay fastest(RunContext& context, const std::vector<FetchWay>& ways, double seconds) {
  const auto rounds = std::min(most_rounds, static_cast<std::size_t>(seconds / least_trial_seconds / static_cast<double>(ways.size())));
  if (rounds == 0) {
    context.events.note(fmt::format("reads by {}: the time budget is too short to try other ways", way_name(ways.front())));
    return ways.front();
  }
  RunContext pilot = pilot_context(context);
  const Nanoseconds begun = context.timing.clock->now();
  std::vector<std::vector<double>> rates(ways.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      show_progress(context, "choosing how to read", begun, seconds);
      rates[i].push_back(trial_rate(pilot, ways[i], seconds / static_cast<double>(rounds * ways.size())));
    }
  }
  std::vector<double> medians;
  medians.reserve(rates.size());
  for (const auto& each : rates) medians.push_back(quantile(each, 0.5));
  const auto best = static_cast<std::size_t>(std::ranges::max_element(medians) - medians.begin());
  std::string others;
  for (std::size_t i = 0; i < ways.size() && medians[best] > 0; ++i) {
    if (i != best) others += fmt::format("{}{:.2f} by {}", others.empty() ? "" : ", ", medians[i] / medians[best], way_name(ways[i]));
  }
  context.events.note(fmt::format("reads by {}: the fastest in a short trial ({})", way_name(ways[best]), others));
  return ways[best];
}

}  // namespace

std::string way_name(const FetchWay& way) {
  return fmt::format("{}, {}", way.engine == IoEngine::uring ? "io_uring" : "threads", way.mode == ReadMode::direct ? "direct" : "buffered");
}

void choose_io(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  context.way = {settings.io == IoEngine::uring ? IoEngine::uring : IoEngine::pread, settings.read_mode};
  if (settings.storage != Seam::real || settings.io == IoEngine::pread) {
    context.way.engine = IoEngine::pread;
    return;
  }
  const IoSupport support = uring_support();
  if (settings.io == IoEngine::uring) {
    if (!support.usable) throw UsageError(fmt::format("--io uring: {}; pass --io auto or pread", support.reason));
    return;
  }
  if (!support.usable) context.find(Finding::Severity::info, "io-uring-refused", fmt::format("Files are read by threads: {}.", support.reason));
  context.way = fastest(context, ways_to_try(settings, support.usable), seconds);
}

}  // namespace dsanalyze
