#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "pilot.hpp"
#include "run_support.hpp"
#include "runs.hpp"
#include "storage_point.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t block = 4096;
constexpr std::array<std::uint64_t, 6> request_sizes = {4096, 16'384, 65'536, 262'144, 1'048'576, 4'194'304};
constexpr std::array<int, 5> concurrencies = {1, 4, 16, 64, 256};
constexpr std::size_t requests_drawn = 8192;
constexpr double least_point_seconds = 0.12;
constexpr double most_point_seconds = 1;

struct Point {
  std::uint64_t request_bytes = 0;
  int concurrency = 0;
};

/// The bytes of a file that samples lie in.
struct FileRange {
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = 0;
};

std::vector<FileRange> file_ranges(const DatasetIndex& index) {
  std::vector<FileRange> ranges(std::max(index.file_count(), 1U));
  for (const IndexRecord& record : index.records()) {
    FileRange& range = ranges[record.file];
    range.begin = std::min(range.begin, record.offset);
    range.end = std::max(range.end, record.offset + record.length);
  }
  return ranges;
}

std::uint64_t whole_blocks(double bytes) { return std::max<std::uint64_t>(block, static_cast<std::uint64_t>(bytes) / block * block); }

/// The most telling first: the samples' own size at every concurrency, then every size at the run's own concurrency, then the rest.
std::vector<Point> points_by_weight(std::uint64_t own_bytes, int own_concurrency, std::uint64_t largest_request, double scale) {
  std::vector<Point> points;
  const auto add = [&](std::uint64_t size, int concurrency) {
    const std::uint64_t bytes = size == own_bytes ? size : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(size) / scale));
    if (bytes > largest_request && bytes != own_bytes) return;
    const bool there = std::ranges::any_of(points, [&](const Point& p) { return p.request_bytes == bytes && p.concurrency == concurrency; });
    if (!there) points.push_back({bytes, concurrency});
  };
  add(own_bytes, own_concurrency);
  for (const std::uint64_t bytes : request_sizes) add(bytes, own_concurrency);
  for (const int concurrency : concurrencies) add(own_bytes, concurrency);
  for (const int concurrency : concurrencies) {
    for (const std::uint64_t bytes : request_sizes) add(bytes, concurrency);
  }
  return points;
}

/// Requests of one size at random places of the subset's files; of files that are too short, none.
std::shared_ptr<const DatasetIndex> request_index(const DatasetIndex& subset, const std::vector<FileRange>& ranges, std::uint64_t bytes,
                                                  std::uint64_t seed) {
  DatasetIndexBuilder builder;
  for (std::uint32_t file = 0; file < subset.file_count(); ++file) builder.add_file(subset.file_path(file));
  RandomStream random(mix(seed, bytes, 0x637572));
  for (std::size_t i = 0; i < requests_drawn; ++i) {
    const IndexRecord& drawn = subset[static_cast<SampleId>(random.below(subset.size()))];
    const FileRange& range = ranges[drawn.file];
    if (range.end - range.begin < bytes) continue;
    const std::uint64_t places = (range.end - range.begin - bytes) / block + 1;
    builder.add_sample({range.begin + random.below(places) * block, bytes, drawn.file, 0});
  }
  DatasetIndex::Facts facts;
  facts.root = subset.facts().root;
  facts.format = subset.facts().format;
  facts.digest = "requests";
  return std::move(builder).build(std::move(facts));
}

}  // namespace

std::vector<StoragePoint> measure_storage_curve(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  if (seconds <= 0 || settings.storage == Seam::null || settings.max_storage_bytes_per_s > 0) return {};
  const std::vector<FileRange> ranges = file_ranges(*context.subset);
  std::uint64_t largest = 0;
  for (const FileRange& range : ranges) {
    if (range.end > range.begin) largest = std::max(largest, range.end - range.begin);
  }
  const bool made_up = context.inputs.index->facts().format == "emulated";
  const std::uint64_t own =
      made_up ? static_cast<std::uint64_t>(std::llround(std::max(1.0, mean_sample_bytes(context)))) : whole_blocks(mean_sample_bytes(context));
  std::vector<Point> points = points_by_weight(own, settings.fetch_concurrency, largest, settings.scale);
  const auto fit = static_cast<std::size_t>(seconds / least_point_seconds);
  if (points.size() > fit) points.resize(fit);
  const double point_seconds = points.empty() ? 0 : std::min(seconds / static_cast<double>(points.size()), most_point_seconds);

  make_cold(context);
  const Nanoseconds begun = context.timing.clock->now();
  std::vector<StoragePoint> curve;
  std::map<std::uint64_t, std::shared_ptr<const DatasetIndex>> requests;
  for (const Point& point : points) {
    if (to_seconds(context.timing.clock->now() - begun) > seconds || context.budget_spent() || context.stop.stop_requested()) break;
    show_progress(context, "storage curve", begun, seconds);
    auto& index = requests[point.request_bytes];
    if (!index) index = request_index(*context.subset, ranges, point.request_bytes, settings.seed);
    if (index->size() == 0) continue;
    ProfileInputs inputs = context.inputs;
    inputs.settings.fetch_concurrency = point.concurrency;
    inputs.settings.order = OrderKind::random;
    inputs.settings.shuffle_buffer = 0;
    Pipeline::Spec spec = run_spec(context, CacheKind::none, 0);
    spec.index = index;
    Pipeline pipeline(inputs, spec, context.timing);
    const StoragePointRun run(pipeline.engine(), *index, point.concurrency, point_seconds, context.stop, context.timing);
    if (run.bytes_per_s() > 0) curve.push_back({static_cast<double>(point.request_bytes), point.concurrency, run.bytes_per_s()});
  }
  std::ranges::sort(curve, [](const StoragePoint& a, const StoragePoint& b) {
    return a.request_bytes != b.request_bytes ? a.request_bytes < b.request_bytes : a.concurrency < b.concurrency;
  });
  return curve;
}

StorageCost fitted_storage_cost(const RunContext& context) {
  std::vector<CostPoint> points;
  for (const StoragePoint& point : context.storage_curve) {
    if (point.concurrency == context.inputs.settings.fetch_concurrency) points.push_back({point.request_bytes, point.bytes_per_s});
  }
  return points.empty() ? StorageCost{0, 1} : fit_storage_cost(points);
}

double saved_storage_share(const RunContext& context) {
  if (context.inputs.settings.admission == Admission::first) return context.plan.cache_fraction;
  return 1 - cost_aware_remaining_share(context.subset->records(), fitted_storage_cost(context), context.subset_cache_bytes);
}

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
