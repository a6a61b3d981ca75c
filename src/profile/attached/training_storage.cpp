#include "training_storage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "core/records/rate_text.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "loaders/fetch/storage_meter.hpp"
#include "profile/storage_point.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes longest_range = Bytes{1} << 20;
constexpr std::uint64_t small_gap = 4096;  ///< within a range: what the kernel reads all the same
constexpr std::size_t most_ranges = 200'000;
constexpr std::uint32_t least_ranges = 40;
constexpr double least_cold = 0.9;    ///< of the bytes that were read cold, from storage by the kernel's count
constexpr double most_mapped = 0.05;  ///< of the files' bytes
constexpr int most_in_flight = 256;
constexpr int waiting_each = 3;  ///< requests for each thread, so that none waits for its next one: a worker of a training asks for it by itself

/// A stretch of one opening that is still growing.
struct Growing {
  std::uint32_t file = 0;
  std::uint64_t begin = 0, end = 0;
  std::size_t place = 0;  ///< in the order of the ranges
};

class Ranges {
 public:
  /// `sandbox`: in which the trace was made, whose files lie elsewhere now; nullptr where there was none.
  Ranges(const AccessTrace& trace, const Sandbox* sandbox) : m_trace(trace), m_sandbox(sandbox) {}

  void add(const FileAccess& access) {
    const std::uint64_t end = access.offset + access.bytes;
    const auto [found, is_new] = m_growing.try_emplace({access.process, access.opening});
    Growing& growing = found->second;
    const bool goes_on = !is_new && growing.file == access.file && access.offset >= growing.begin && access.offset <= growing.end + small_gap &&
                         end - growing.begin <= longest_range;
    if (!goes_on) {
      std::uint64_t begin = access.offset;
      for (; end - begin > longest_range; begin += longest_range) close({access.file, begin, begin + longest_range, m_ranges.size()});
      growing = {access.file, begin, end, m_ranges.size()};
      m_ranges.emplace_back();
    }
    growing.end = std::max(growing.end, end);
    m_ranges[growing.place] = {growing.begin, growing.end - growing.begin, growing.file, 0};
  }

  /// In their order; of those that begin at the same place, the first.
  std::shared_ptr<const DatasetIndex> index(Bytes most_bytes) const {
    DatasetIndexBuilder builder;
    std::map<std::uint32_t, std::uint32_t> numbers;
    std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> seen;
    Bytes bytes = 0;
    std::size_t count = 0;
    for (const IndexRecord& range : m_ranges) {
      const TracedFile& file = m_trace.files[range.file];
      if (range.length == 0 || !file.path.starts_with('/') || !seen.emplace(file.device, file.inode, range.offset).second) continue;
      if (bytes + range.length > most_bytes || count == most_ranges) break;
      bytes += range.length;
      ++count;
      const auto [number, is_new] = numbers.try_emplace(range.file, 0);
      if (is_new) number->second = builder.add_file(m_sandbox == nullptr ? file.path.substr(1) : m_sandbox->outside(file.path).native().substr(1));
      builder.add_sample({range.offset, range.length, number->second, 0});
    }
    DatasetIndex::Facts facts;
    facts.root = "/";
    facts.format = "ranges";
    facts.digest = "ranges";
    return std::move(builder).build(std::move(facts));
  }

 private:
  void close(const Growing& whole) { m_ranges.push_back({whole.begin, whole.end - whole.begin, whole.file, 0}); }

  const AccessTrace& m_trace;
  const Sandbox* m_sandbox;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Growing> m_growing;  ///< by process and opening
  std::vector<IndexRecord> m_ranges;
};

/// Why S cannot be derived from the ranges; empty where it can.
std::string not_separable(const ProfileResult& result) {
  const ReadsRecord& reads = *result.reads;
  if (reads.mapped_files > 0 && static_cast<double>(reads.mapped_bytes) > most_mapped * static_cast<double>(reads.file_bytes))
    return "its data is memory-mapped, and what is read of it is no call";
  if (std::ranges::count(result.findings, "reads-partly-seen", &Finding::code) > 0)
    return "the tracer saw a part of what it reads only (reads-partly-seen)";
  return "";
}

/// Whether the last quarter of the bytes that the run full read came from no further file: there are no others then.
bool saw_all_files(const LaunchedTraining& launched) {
  constexpr double until = 0.75;
  const FullAccesses full(launched);
  std::set<std::pair<std::uint64_t, std::uint64_t>> files;  // by device and inode
  double bytes = 0;
  double at_last_file = 0;
  for (const FileAccess& access : launched.accesses->accesses) {
    if (!reads_bytes(access.kind) || !full.holds(access)) continue;
    const TracedFile& file = launched.accesses->files[access.file];
    bytes += static_cast<double>(access.bytes);
    if (files.emplace(file.device, file.inode).second) at_last_file = bytes;
  }
  return at_last_file <= until * bytes;
}

/// The deepest folder that holds all files of the ranges, or the one file.
std::string common_path(const DatasetIndex& ranges) {
  std::filesystem::path common;
  for (std::uint32_t file = 0; file < ranges.file_count(); ++file) {
    const std::filesystem::path path = std::filesystem::path("/") / ranges.file_path(file);
    if (file == 0) {
      common = path;
      continue;
    }
    const auto [end, other] = std::ranges::mismatch(common, path);
    std::filesystem::path shared;
    for (auto part = common.begin(); part != end; ++part) shared /= *part;
    common = std::move(shared);
  }
  return common.native();
}

/// Reads the ranges and turns bytes into samples.
class StorageMeasurement {
 public:
  StorageMeasurement(std::shared_ptr<const DatasetIndex> ranges, double bytes_per_sample, const std::stop_token& stop, Timing timing)
      : m_ranges(std::move(ranges)), m_bytes_per_sample(bytes_per_sample), m_stop(stop), m_timing(timing) {}

  struct Point {
    double bytes_per_s = 0;
    std::vector<Stretch> stretches;
    Bytes bytes = 0;
    std::uint64_t failed = 0;
    double seconds = 0;
  };
  Point cold(int concurrency, double seconds) {
    const auto engine = make_engine(m_ranges, concurrency, PageCacheUse::drop);
    return run(*engine, *m_ranges, concurrency, seconds, m_next);
  }
  /// What fits is read twice, and counted the second time.
  Point warm(int concurrency, double seconds) {
    Bytes bytes = 0;
    std::vector<SampleId> first;
    for (SampleId id = 0; id < m_ranges->size() && bytes < most_warm_bytes; ++id) {
      bytes += (*m_ranges)[id].length;
      first.push_back(id);
    }
    const auto some = subset_index(*m_ranges, first);
    const auto engine = make_engine(some, concurrency, PageCacheUse::keep);
    std::uint64_t next = 0;
    constexpr double longest_fill = 3;  // as a multiple
    const Deadline filled_by = m_timing.clock->after(longest_fill * seconds);
    while (next < some->size() && m_timing.clock->now() < filled_by.at && !m_stop.stop_requested())
      run(*engine, *some, concurrency, std::min(seconds, 0.1), next);
    if (next < some->size()) return {};
    return run(*engine, *some, concurrency, seconds, next);
  }

  [[nodiscard]] RateRecord rate(const Point& point, std::string method) const {
    const Estimate estimate = estimate_of_ratio(point.stretches);
    RateRecord record;
    record.bytes_per_s = estimate.value;
    record.samples_per_s = estimate.value / m_bytes_per_sample;
    record.ci95_samples_per_s = {std::max(estimate.ci95.low, 0.0) / m_bytes_per_sample, estimate.ci95.high / m_bytes_per_sample};
    record.windows = estimate.windows;
    record.method = std::move(method);
    return record;
  }

 private:
  std::unique_ptr<FetchEngine> make_engine(const std::shared_ptr<const DatasetIndex>& index, int concurrency, PageCacheUse use) const {
    FetchOptions options;
    options.concurrency = concurrency;
    options.capacity = std::size_t{waiting_each} * static_cast<std::size_t>(concurrency);
    options.page_cache = use;
    return make_thread_engine(index, options, m_timing);
  }

  Point run(FetchEngine& engine, const DatasetIndex& index, int concurrency, double seconds, std::uint64_t& next) {
    const Nanoseconds begin = m_timing.clock->now();
    const StoragePointRun point(engine, index, waiting_each * concurrency, seconds, m_stop, m_timing, next);
    next = point.next();
    return {point.bytes_per_s(), point.stretches(), point.bytes(), point.failed(), to_seconds(m_timing.clock->now() - begin)};
  }

  std::shared_ptr<const DatasetIndex> m_ranges;
  double m_bytes_per_sample;
  const std::stop_token& m_stop;
  Timing m_timing;
  std::uint64_t m_next = 0;
};

/// How well it is known that the ranges came from storage, and why that is not so; nothing for the reason where it is.
struct ColdProof {
  StorageProof proof = StorageProof::unproved;
  std::string doubt;
};
ColdProof prove_cold_ranges(const DatasetIndex& ranges, const StorageMeter& meter, std::optional<Bytes> before, std::optional<Bytes> after,
                            Bytes read, const std::stop_token& stop) {
  const std::vector<StoragePlace> places = storage_places(ranges, system_storage(), stop);
  if (const std::string why = uncounted_place(meter, ranges, places); !why.empty()) return {StorageProof::unproved, why};
  if (!before || !after) return {StorageProof::unproved, meter.method()};
  const double fraction = static_cast<double>(*after - std::min(*before, *after)) / static_cast<double>(std::max<Bytes>(read, 1));
  if (fraction >= least_cold) return {meter.scope() == StorageMeter::Scope::process ? StorageProof::proved : StorageProof::corroborated, ""};
  return {StorageProof::unproved, fmt::format("by the kernel's count, {:.0f} % of what was read cold came from storage", 100 * fraction)};
}

}  // namespace

std::shared_ptr<const DatasetIndex> read_ranges(const AccessTrace& trace, const std::vector<TimeSpan>& spans, Bytes most_bytes,
                                                const Sandbox* sandbox) {
  Ranges ranges(trace, sandbox);
  for (const FileAccess& access : trace.accesses)
    if (reads_bytes(access.kind) && access.bytes > 0 && is_data(trace.files[access.file].path) && is_within(spans, access.end)) ranges.add(access);
  return ranges.index(most_bytes);
}

std::optional<Bytes> epoch_bytes(const LaunchedTraining& launched, const ProfileResult& result) {
  const RunRecord& full = *result.run("full");
  const ReadsRecord& reads = *result.reads;
  double samples = full.epoch_seconds * full.samples_per_s;
  if (samples <= 0 && result.waits && result.waits->between_epochs && result.waits->between_epochs->steps)
    samples = static_cast<double>(*result.waits->between_epochs->steps) * result.waits->step_seconds * full.samples_per_s;
  double bytes = samples * reads.bytes_per_sample;
  if (bytes <= 0) return std::nullopt;
  // A file may hold samples that overlap.
  if (saw_all_files(launched)) bytes = std::min(bytes, static_cast<double>(reads.file_bytes));
  return static_cast<Bytes>(std::llround(bytes));
}

double storage_seconds(double time_budget_seconds) {
  constexpr double fraction = 0.05;
  return std::clamp(fraction * time_budget_seconds, 0.5, 8.0);
}

void measure_training_storage(const LaunchedTraining& launched, double seconds, const HostFacts& host, ProfileResult& result, EventSink& events,
                              const std::stop_token& stop, Timing timing) {
  if (!launched.accesses || !result.reads) return;
  ReadsRecord& reads = *result.reads;
  const auto give_up = [&](const std::string& reason) {
    result.findings.push_back({"storage-not-separable", Finding::Severity::info,
                               fmt::format("what storage alone supplies to this training [S] is not known: {}.", reason)});
  };
  reads.page_cache_bytes = launched.memory_usable;
  if (const std::string reason = not_separable(result); !reason.empty()) return give_up(reason);
  if (reads.files == 0) return;
  reads.dataset_bytes = epoch_bytes(launched, result);
  const std::vector<TimeSpan> windows = full_windows(launched.training);
  if (windows.empty() || reads.bytes_per_sample <= 0) return;
  constexpr Bytes of_memory = 4;
  const auto ranges = read_ranges(*launched.accesses, {{windows.front().begin, INT64_MAX}}, host.memory_usable / of_memory, launched.sandbox.get());
  reads.dataset_path = common_path(*ranges);
  if (ranges->size() < least_ranges) return give_up(fmt::format("it read {} places of its files, which are too few to measure", ranges->size()));

  const int own = std::clamp(std::max(result.settings.accelerators, 1) * std::max(result.settings.workers, 1), 1, most_in_flight);
  StorageMeasurement measurement(ranges, reads.bytes_per_sample, stop, timing);
  drop_from_page_cache(*ranges, stop);
  if (stop.stop_requested()) throw Interrupted();
  const StorageMeter meter(std::filesystem::path("/") / ranges->file_path(0));
  const auto before = meter.process_bytes();
  constexpr double own_share = 0.55;
  constexpr double warm_share = 0.15;
  const StorageMeasurement::Point point = measurement.cold(own, own_share * seconds);
  Bytes read = point.bytes;
  const double range_bytes = static_cast<double>(ranges->bytes()) / ranges->size();
  std::vector<StoragePoint> curve;
  if (point.bytes_per_s > 0) curve.push_back({range_bytes, own, point.bytes_per_s});
  std::vector<int> others;
  for (const int concurrency : {1, 2, 4, 8, 16, 32})
    if (concurrency != own) others.push_back(concurrency);
  for (const int concurrency : others) {
    if (stop.stop_requested()) throw Interrupted();
    const auto other = measurement.cold(concurrency, (1 - own_share - warm_share) * seconds / static_cast<double>(others.size()));
    read += other.bytes;
    if (other.bytes_per_s > 0) curve.push_back({range_bytes, concurrency, other.bytes_per_s});
  }
  const auto after = meter.process_bytes();
  const ColdProof proof = prove_cold_ranges(*ranges, meter, before, after, read, stop);
  const StorageMeasurement::Point warm = measurement.warm(own, warm_share * seconds);
  if (stop.stop_requested()) throw Interrupted();
  if (!proof.doubt.empty()) return give_up(proof.doubt);
  if (point.bytes_per_s <= 0)
    return give_up(point.failed > 0 ? "its files could not be read again" : "storage was too slow for the time: pass a longer --time-budget");

  result.storage = measurement.rate(
      point, fmt::format("the ranges that the training read, cold, by threads with {} reads in flight, as many as it has workers", own));
  if (warm.bytes_per_s > 0) result.cache = measurement.rate(warm, fmt::format("the same ranges from the page cache, by {} threads", own));
  std::ranges::sort(curve, {}, &StoragePoint::concurrency);
  result.storage_by_request = std::move(curve);
  RunRecord run;
  run.name = "fetch";
  run.samples_per_s = result.storage->samples_per_s;
  run.ci95_samples_per_s = result.storage->ci95_samples_per_s;
  run.windows = result.storage->windows;
  run.seconds = point.seconds;
  run.samples = static_cast<std::uint64_t>(static_cast<double>(point.bytes) / reads.bytes_per_sample);
  run.requested_bytes = read;
  run.storage_bytes = *after - *before;
  run.storage_proof = proof.proof;
  run.fetch_concurrency = own;
  result.runs.push_back(run);
  result.host.storage_device = meter.device();
  result.host.storage_filesystem = meter.filesystem();
  events.note(fmt::format("storage alone: {} samples/s [S] of what the training read, cold",
                          format_rate(result.storage->samples_per_s, result.storage->ci95_samples_per_s)));
}

}  // namespace dsanalyze
