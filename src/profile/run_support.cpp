#include "run_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "core/records/result.hpp"
#include "core/trace/trace_events.hpp"
#include "doctor/doctor_context.hpp"

namespace dsanalyze {

void RunContext::find(Finding::Severity severity, const std::string& code, const std::string& message) {
  findings.push_back({code, severity, message});
  events.finding(findings.back());
}

void RunContext::distrust(const std::string& code, const std::string& message) {
  trusted = false;
  find(Finding::Severity::error, code, message);
}

void judge_background_load(RunContext& context, const std::vector<RunRecord>& runs) {
  std::vector<std::string> shares;
  const RunRecord* most = nullptr;
  bool shared = false;
  for (const RunRecord& run : runs) {
    if (!run.others || run.shared_windows + run.void_windows == 0) continue;
    shared = shared || run.shared_windows > 0 || run.windows == 0;
    shares.push_back(fmt::format("{} in the run \"{}\"", format_share(run.others->cpu_fraction), run.name));
    if (most == nullptr || run.others->cpu_fraction > most->others->cpu_fraction) most = &run;
  }
  if (most == nullptr) return;
  context.find(shared ? Finding::Severity::warning : Finding::Severity::info, "other-processes",
               fmt::format("other processes took a part of the CPU, {}: {}.{}", fmt::join(shares, ", "), load_text(*most->others),
                           shared ? " The rates are what is left beside them; stop them and profile again for the machine's own." : ""));
}

JudgeCpu judge_cpu(const RunContext& context) { return only_waits(context.inputs.settings) ? JudgeCpu::no : JudgeCpu::yes; }

double epoch_seconds(const RunContext& context, const RateRecord& rate) {
  return rate.samples_per_s > 0 ? context.subset->size() / rate.samples_per_s : 0;
}

double mean_sample_bytes(const RunContext& context) { return static_cast<double>(context.subset->bytes()) / std::max(1U, context.subset->size()); }

Pipeline::Spec run_spec(const RunContext& context, CacheKind cache, Bytes cache_bytes) {
  const ProfileSettings& settings = context.inputs.settings;
  std::vector<int> cpus;
  const auto& allowed = context.inputs.host.cpus_allowed;
  if (settings.prep == Seam::real && settings.cores < static_cast<int>(allowed.size()))
    cpus.assign(allowed.begin(), allowed.begin() + settings.cores);
  return {context.subset, cache, cache_bytes, PageCacheUse::drop, settings.workers, cpus, context.way, SlotPages::before_use, {}, 0};
}

namespace {

constexpr std::size_t most_epochs_recorded = 200;  // tiny datasets run through thousands: the first and the last ones say it all

/// Waits of the steady part: those of the first epoch, cold or filling, are left out when others follow.
struct SteadyStalls {
  std::vector<double> all, at_boundaries;
};

SteadyStalls steady_stalls(const TrainingLog& log) {
  SteadyStalls stalls;
  if (log.completions.empty()) return stalls;
  const std::uint64_t first = log.completions.front().epoch;
  const bool others_follow = log.completions.back().epoch > first;
  std::uint64_t epoch = first;
  for (const BatchCompletion& completion : log.completions) {
    if (others_follow && completion.epoch == first) continue;
    stalls.all.push_back(to_seconds(completion.stall));
    if (completion.epoch != epoch) stalls.at_boundaries.push_back(stalls.all.back());
    epoch = completion.epoch;
  }
  return stalls;
}

void record_stalls(RunRecord& record, const TrainingLog& log) {
  const SteadyStalls stalls = steady_stalls(log);
  record.stall_p50_seconds = quantile(stalls.all, 0.5);
  record.stall_p99_seconds = quantile(stalls.all, 0.99);
  record.stall_epoch_boundary_seconds = mean(stalls.at_boundaries);
}

/// How the waits spread, by the same rule as stall_p50 and stall_p99.
DistributionRecord distribution_of(std::vector<double> values) {
  std::ranges::sort(values);
  DistributionRecord record{mean(values), values.size(), {}, standard_deviation(values)};
  for (std::size_t i = 0; i < DistributionRecord::points; ++i) {
    const double position = static_cast<double>(i * (values.size() - 1)) / (DistributionRecord::points - 1);
    const auto below = static_cast<std::size_t>(position);
    record.quantiles.push_back(std::lerp(values[below], values[std::min(below + 1, values.size() - 1)], position - static_cast<double>(below)));
  }
  return record;
}

void record_epochs(RunRecord& record, const Loader& loader, const TrainingLog& log) {
  const auto ends = log.epoch_ends();
  Nanoseconds previous_end = log.begun;
  for (const EpochTotals& totals : loader.epochs()) {
    const auto found = ends.find(totals.epoch);
    // Independent accelerators may end a short epoch before the one that came first; it then took no time of its own.
    const Nanoseconds end = found == ends.end() ? previous_end : std::max(found->second, previous_end);
    record.epochs.push_back({totals.epoch, to_seconds(end - previous_end), totals.samples, totals.storage, totals.requested, totals.hits,
                             totals.misses, totals.peer_hits, totals.peer_bytes, totals.digest});
    previous_end = end;
  }
  if (record.epochs.size() > most_epochs_recorded) record.epochs.erase(record.epochs.begin() + 1, record.epochs.end() - (most_epochs_recorded - 1));
}

}  // namespace

void take_rate(const RunContext& context, Measured& measured) {
  measured.record.samples_per_s = measured.rate.samples_per_s;
  measured.record.ci95_samples_per_s = measured.rate.ci95_samples_per_s;
  measured.record.epoch_seconds = epoch_seconds(context, measured.rate);
  measured.record.windows = measured.rate.windows;
  measured.record.void_windows = measured.rate.void_windows;
  measured.record.shared_windows = measured.rate.shared_windows;
}

RunRecord record_run(const std::string& name, const RunContext& context, const Pipeline& pipeline, const Loader& loader, const Observer& observer,
                     const TrainingLog& log) {
  RunRecord record;
  record.name = name;
  record.prefetch_batches = pipeline.prefetch_batches();
  record.fetch_concurrency = context.inputs.settings.fetch_concurrency;
  record.fetch_places = static_cast<int>(pipeline.engine().capacity());
  record.slot_bytes = loader.slot_bytes();
  record.seconds = to_seconds(context.timing.clock->now() - log.begun);
  record.first_batch_seconds = log.first_batch > 0 ? to_seconds(log.first_batch - log.begun) : 0;
  const LoaderTotals totals = loader.totals();
  record.cache_hits = totals.hits;
  record.cache_misses = totals.misses;
  record.samples_failed = loader.failed_samples();
  for (const FailureCount& each : loader.failure_counts()) record.failures.push_back({each.cause, each.count, each.example});
  for (const BatchCompletion& completion : log.completions) record.samples += completion.samples;

  record_stalls(record, log);

  Nanoseconds operators = 0;
  for (const Nanoseconds time : totals.operator_times) operators += time;
  const std::uint64_t by_operators = totals.prep.samples - totals.gpu_prep.samples;  // a GPU has none of them
  const auto names = loader.operator_names();
  for (std::size_t i = 0; i < names.size() && operators > 0; ++i) {
    const Nanoseconds time = totals.operator_times[i];
    record.prep_operators.push_back({std::string(names[i]), static_cast<double>(time) / static_cast<double>(operators),
                                     to_seconds(time) / static_cast<double>(std::max<std::uint64_t>(by_operators, 1))});
  }

  record_epochs(record, loader, log);
  record.timeline = observer.timeline();
  record.others = observer.others();
  return record;
}

void record_accelerators(RunRecord& record, const ProfileSettings& settings, const TrainingLog& log, const Trainer& trainer) {
  if (!trains(settings) || log.completions.empty()) return;
  record.training = trainer.training();
  record.stall_seconds = distribution_of(steady_stalls(log).all);
  if (!emulates_accelerator(settings)) return;  // utilisation is of the accelerator's own rate, which is stated for emulated ones
  std::vector<AcceleratorBatch> batches;
  batches.reserve(log.completions.size());
  for (const BatchCompletion& each : log.completions) batches.push_back({each.begin, each.end, each.samples});
  record.mlperf_storage_au = mlperf_storage_au(
      batches, {static_cast<std::uint32_t>(settings.accelerators), static_cast<std::uint32_t>(settings.batch_size), settings.accelerator_rate});
}

RateRecord record_rate(RunContext& context, const std::string& run, const WindowedRate& rate, double mean_bytes, const std::string& method) {
  RateRecord record;
  record.samples_per_s = rate.estimate.value;
  record.bytes_per_s = rate.estimate.value * mean_bytes;
  record.ci95_samples_per_s = rate.estimate.ci95;
  record.windows = rate.kept;
  record.void_windows = rate.voided;
  record.shared_windows = rate.shared;
  record.method = method;
  if (rate.all_void) {
    context.distrust("cpu-taken-by-others",
                     fmt::format("run \"{}\": other processes took more than 75 % of the CPU in all {} windows, so its rate is a lower bound. "
                                 "Stop them, or pass --cores to leave them theirs, and run again.",
                                 run, rate.voided));
  } else if (rate.voided > 0) {
    context.find(Finding::Severity::info, "windows-void",
                 fmt::format("run \"{}\": {} of {} windows were left out because other processes took more than 2 % of the CPU.", run, rate.voided,
                             rate.voided + rate.kept));
  }
  if (rate.estimate.value <= 0) {
    context.distrust(
        "rate-not-measured",
        fmt::format("run \"{}\" finished no window: the time budget is too short for it. Pass a longer --time-budget or a smaller --batch-size.",
                    run));
  } else if (rate.estimate.relative_half_width() > 0.10) {
    context.find(Finding::Severity::warning, "rate-unsteady",
                 fmt::format("run \"{}\": the rate varies so much that its 95 % interval is ± {:.0f} %. A longer --time-budget narrows it.", run,
                             rate.estimate.relative_half_width() * 100));
  }
  return record;
}

void report_failures(RunContext& context, const std::string& run, const Loader& loader) {
  if (loader.failed_samples() == 0) return;
  std::string names;
  const auto failures = loader.failures();
  for (std::size_t i = 0; i < std::min<std::size_t>(failures.size(), 3); ++i)
    names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", failures[i].path, failures[i].cause);
  context.find(
      Finding::Severity::warning, "samples-failed",
      fmt::format("run \"{}\": {} samples could not be used and were {}: {}{}. `dsanalyze dataset verify` lists all.", run, loader.failed_samples(),
                  context.inputs.settings.on_error == OnError::substitute ? "replaced by others of their batch" : "left out", names,
                  failures.size() > 3 ? ", ..." : ""));
}

void show_progress(RunContext& context, const std::string& run, Nanoseconds begun, double seconds, double samples_per_s) {
  const Nanoseconds now = context.timing.clock->now();
  const double whole = context.plan.seconds;
  const double done = to_seconds(now - context.begun);
  context.events.progress({run + " run", std::clamp(done / whole, 0.0, 1.0), std::max(0.0, whole - done), samples_per_s,
                           fmt::format("{:.0f} of at most {:.0f} s", to_seconds(now - begun), seconds)});
}

void note_rate(RunContext& context, const std::string& what, const RateRecord& rate) {
  if (rate.samples_per_s <= 0) return;  // a finding has said so
  const double half = (rate.ci95_samples_per_s.high - rate.ci95_samples_per_s.low) / 2;
  context.events.note(fmt::format("{}: {} ± {} samples/s ({})", what, format_number(rate.samples_per_s), format_number(half),
                                  format_bytes_per_second(rate.bytes_per_s)));
}

namespace {

constexpr std::size_t block_words = (std::size_t{1} << 20) / sizeof(std::uint64_t);
constexpr int most_passes = 600;
constexpr double most_calibration_seconds = 0.5;  ///< a slow build, or a slow machine, has its time budget for other things

/// Never change this: figures of different versions would not be comparable.
std::uint64_t hash_pass(std::vector<std::uint64_t>& block, std::uint64_t hash) {
  for (std::uint64_t& word : block) {
    hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
    hash ^= hash >> 32;
    word += hash;
  }
  return hash;
}

}  // namespace

double calibrate_cpu(Timing timing) {
  std::vector<std::uint64_t> block(block_words, 1);
  std::uint64_t hash = hash_pass(block, 1);  // pages and clocks are up
  const Nanoseconds begin = timing.clock->now();
  int passes = 0;
  double seconds = 0;
  for (; passes < most_passes && seconds < most_calibration_seconds; ++passes) {
    hash = hash_pass(block, hash);
    seconds = to_seconds(timing.clock->now() - begin);
  }
  [[maybe_unused]] volatile std::uint64_t kept = hash;  // so that the work is not optimised away
  return seconds > 0 ? passes / seconds : 0;
}

namespace {

std::vector<AcceleratorStep> accelerator_steps(const RunContext& context, const TrainingLog& log) {
  std::vector<AcceleratorStep> steps;
  if (!trains(context.inputs.settings)) return steps;
  steps.reserve(log.completions.size());
  for (const BatchCompletion& each : log.completions) steps.push_back({each.begin, each.end, each.stall, each.step, each.samples});
  return steps;
}

std::vector<EpochEnd> epoch_ends(const TrainingLog& log) {
  std::vector<EpochEnd> ends;
  for (const BatchCompletion& each : log.completions) {
    if (each.last_of_epoch) ends.push_back({each.end, each.epoch});
  }
  return ends;
}

TracedRun traced_run(const RunContext& context, const SpanRecorder& spans, const Loader& loader, const Observer& observer, const TrainingLog& log) {
  TracedRun run;
  run.spans = &spans;
  for (const std::string_view name : loader.operator_names()) run.operators.emplace_back(name);
  run.steps = accelerator_steps(context, log);
  run.epochs = epoch_ends(log);
  run.counters = observer.counters();
  run.begun = log.begun;
  run.name = "dsanalyze, full run";
  const ToolRecord tool = this_tool();
  run.facts = {{"tool", fmt::format("{} {}", tool.name, tool.version)},
               {"dataset", context.inputs.settings.dataset},
               {"times", "microseconds since the run or its loader began, floored to 1/8; each operator's time in a sample as one span"},
               {"accelerators", run.steps.empty()                                              ? "none"
                                : context.inputs.settings.accelerator == AcceleratorKind::cpu  ? "the CPU"
                                : context.inputs.settings.accelerator == AcceleratorKind::cuda ? "GPUs, occupied as long as asked"
                                                                                               : "emulated"}};
  return run;
}

}  // namespace

std::unique_ptr<SpanRecorder> make_span_recorder(const RunContext& context) {
  if (context.inputs.trace_events_file.empty()) return nullptr;
  return std::make_unique<SpanRecorder>(room_for_spans(context.inputs.most_trace_events));
}

void write_run_trace(RunContext& context, const SpanRecorder& spans, const Loader& loader, const Observer& observer, const TrainingLog& log) {
  const std::filesystem::path& file = context.inputs.trace_events_file;
  context.find(Finding::Severity::info, "traced",
               "run \"full\" was recorded for --trace-events: its rate and stalls hold what recording took; compare rates of runs without it.");
  try {
    const TraceEventsSummary written = write_trace_events(file, traced_run(context, spans, loader, observer, log), context.inputs.most_trace_events);
    context.events.note(fmt::format("trace of {} events written to {}", written.events, printable(file.native())));
    if (written.dropped > 0)
      context.find(Finding::Severity::warning, "trace-cut-short",
                   fmt::format("the trace holds {} events and no more: {} later spans were left out. A smaller --subset or fewer --epochs make a "
                               "shorter run.",
                               written.events, written.dropped));
  } catch (const Error& error) {
    context.find(Finding::Severity::warning, "trace-not-written", fmt::format("the measurement stands, its trace is lost: {}", error.what()));
  }
}

namespace {

constexpr Nanoseconds period = nanoseconds_per_second / 10;

}  // namespace

PageCacheLimit::PageCacheLimit(RunContext& context, Bytes to_come) : m_to_come(to_come) {
  if (!context.inputs.settings.memory_limit) return;
  m_asked = static_cast<Bytes>(std::llround(context.plan.cache_fraction * static_cast<double>(context.subset->bytes())));
  m_group.emplace();
  m_was_active = true;
  adjust(context.timing.clock->now());
}

void PageCacheLimit::adjust(Nanoseconds now) {
  if (!m_group || now < m_next_look) return;
  m_next_look = now + period;
  const MemoryGroup::Use use = m_group->use();
  const Bytes own = use.total - std::min(use.total, use.page_cache);
  m_group->limit(target() + std::max(own, m_to_come));
  m_held = use.page_cache;
}

void PageCacheLimit::report(RunContext& context) const {
  if (!m_was_active) return;
  const bool as_asked = m_asked >= least;
  context.find(
      as_asked ? Finding::Severity::info : Finding::Severity::warning, "page-cache-limited",
      fmt::format("the kernel's page cache was held to {} by a cgroup and had {} at the end.{}", format_bytes(target()), format_bytes(m_held),
                  as_asked ? ""
                           : fmt::format(" Less ({} was asked for) cannot be held beside a process that works; the hits are those of the "
                                         "larger cache. Take a larger dataset.",
                                         format_bytes(m_asked))));
}

void PageCacheLimit::end() {
  if (m_group) m_held = m_group->use().page_cache;
  m_group.reset();
}

}  // namespace dsanalyze
