#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "occupied_gpu.hpp"
#include "profile/jobs/job_runs.hpp"
#include "run_support.hpp"
#include "runs.hpp"
#include "training.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t residency_files = 256;
constexpr double least_cold_share = 0.98;  ///< of the bytes asked for must come from the device in a cold run
constexpr double most_cold_share = 1.05;
constexpr double residency_allowed = 0.01;
constexpr double settle_seconds = 0.2;  ///< after the first batch, before the first window

/// Samples/s since the run began, for who waits; the result's rates come from windows.
double mean_rate(const TrainingLog& log, Nanoseconds now) {
  std::uint64_t samples = 0;
  for (const BatchCompletion& completion : log.completions) samples += completion.samples;
  return samples > 0 ? static_cast<double>(samples) / to_seconds(now - log.begun) : -1;
}

void distrust_unmetered(RunContext& context, const std::string& run, const std::string& why, const char* kind) {
  context.distrust("storage-not-metered",
                   fmt::format("run \"{}\": what was read from storage cannot be told ({}), so nothing proves that the run was {}.", run, why, kind));
}

/// Of a counter that was never seen to move.
std::string why_not_believed(const StorageMeter& meter) {
  return fmt::format("{} on {} counted nothing when files of the dataset were read cold", meter.method(), meter.filesystem());
}

/// Of a counter that was seen to move.
StorageProof proof_by(const StorageMeter& meter) {
  return meter.scope() == StorageMeter::Scope::process ? StorageProof::proved : StorageProof::corroborated;
}

/// Proof of a cold run: what it asked for came from the device.
void prove_cold(RunContext& context, RunRecord& run, std::optional<Bytes> device, Bytes asked) {
  if (context.inputs.settings.storage != Seam::real || asked == 0) return;  // a run that read nothing has said so
  const StorageMeter meter(context.subset->facts().root);
  run.storage_proof = StorageProof::unproved;
  if (const std::string why = uncounted_place(meter, *context.subset, context.places); !why.empty())
    return distrust_unmetered(context, run.name, why, "cold");
  if (device && *device * 2 >= asked && context.places.size() <= 1) context.meter_moves = true;
  if (!device || !context.meter_moves) {
    const bool is_absent = page_cache_residency(*context.subset, residency_files).fraction() <= residency_allowed;
    if (is_absent && context.pages_tell) {
      run.storage_proof = StorageProof::corroborated;
      return;
    }
    // Where the pages cannot be dropped, the counter has nothing to count: the finding about memory says more.
    if (!device || is_absent) return distrust_unmetered(context, run.name, device ? why_not_believed(meter) : meter.method(), "cold");
  }
  const double share = static_cast<double>(*device) / static_cast<double>(std::max<Bytes>(asked, 1));
  if (share < least_cold_share) {
    context.distrust(
        "cold-run-read-memory",
        fmt::format("run \"{}\": only {} of the {} that it asked for came from storage ({:.0f} %); the rest lay in memory, so S is too high. "
                    "Is the dataset on a RAM disk, or does another process read it?",
                    run.name, format_bytes(*device), format_bytes(asked), share * 100));
    return;
  }
  run.storage_proof = proof_by(meter);
  // Where others count too, more than what was asked for says nothing of reading ahead.
  if (share > most_cold_share && meter.scope() == StorageMeter::Scope::process) {
    context.find(Finding::Severity::warning, "read-ahead",
                 fmt::format("run \"{}\": storage delivered {} where {} were asked for; reading ahead costs bandwidth.", run.name,
                             format_bytes(*device), format_bytes(asked)));
  }
}

/// Proof of a cached run: nothing came from storage.
void prove_cached(RunContext& context, RunRecord& run, std::optional<Bytes> device, Bytes used) {
  const StorageMeter meter(context.subset->facts().root);
  const bool is_real = context.inputs.settings.storage == Seam::real;
  if (is_real) run.storage_proof = StorageProof::unproved;
  if (const std::string why = is_real ? uncounted_place(meter, *context.subset, context.places) : ""; !why.empty()) {
    distrust_unmetered(context, run.name, why, "cached");
  } else if (!device) {
    distrust_unmetered(context, run.name, meter.method(), "cached");
  } else if (is_real && *device == 0 && !context.meter_moves) {
    distrust_unmetered(context, run.name, why_not_believed(meter), "cached");
  } else if (static_cast<double>(*device) > 0.001 * static_cast<double>(used)) {
    context.distrust(
        "cached-run-read-storage",
        fmt::format("run \"{}\" read {} from storage ({}): its rate is a lower bound. Pass a smaller --subset.", run.name, format_bytes(*device),
                    *device > used
                        ? fmt::format("more than its {}: the reads of others, or what the kernel read ahead, are counted, too", format_bytes(used))
                        : fmt::format("{:.1f} % of its bytes", 100.0 * static_cast<double>(*device) / static_cast<double>(used))));
  } else if (is_real) {
    run.storage_proof = proof_by(meter);
  }
}

/// Where the full run's accesses go; nullptr when they are not wanted.
std::unique_ptr<AccessTraceWriter> make_trace(const RunContext& context, const Pipeline::Spec& spec) {
  if (context.inputs.trace_file.empty()) return nullptr;
  AccessTraceHeader header;
  header.samples = context.subset->size();
  header.dataset_bytes = context.subset->bytes();
  header.digest = context.subset->facts().digest;
  header.cache = {replay_policy_of(spec.cache, context.inputs.settings.admission), spec.cache_bytes, spec.least_priority};
  header.storage_cost = spec.storage_cost;
  return std::make_unique<AccessTraceWriter>(context.inputs.trace_file, header);
}

/// What takes the batches of a run.
enum class Takes { nothing, training };

/// One run of a pipeline's loader, with what takes its batches and who looks at both. One run an object.
class MeteredRun {
 public:
  MeteredRun(RunContext& context, Pipeline& pipeline, const Pipeline::Use& use, Takes takes)
      : m_context(context),
        m_pipeline(pipeline),
        m_storage(pipeline.storage_bytes()),
        m_storage_before(m_storage()),
        m_requested_before(pipeline.engine().requested()),
        m_loader(pipeline.make_loader(use)),
        m_trainer(takes == Takes::nothing ? make_null_trainer()
                                          : make_trainer(context.inputs, pipeline.server().devices(), 0, *m_loader, context.timing)),
        m_observer(*m_loader, m_storage, context.inputs.host, context.timing) {}

  void run_until(const std::function<bool(const TrainingLog&)>& enough) {
    m_log = train(*m_loader, *m_trainer, enough, m_context.stop, m_context.timing);
    m_observer.stop();
  }

  /// For `seconds`, or until the rate is narrow: `rate` gives it as known, of a log and an end. Looks at the windows once a second.
  template <typename Rate>
  void run_for(const std::string& shown_as, double seconds, const Rate& rate) {
    const Nanoseconds begun = m_context.timing.clock->now();
    Nanoseconds next_look = 0;
    run_until([&](const TrainingLog& so_far) {
      const Nanoseconds now = m_context.timing.clock->now();
      if (to_seconds(now - begun) >= seconds || m_context.budget_spent()) return true;
      if (now < next_look) return false;
      next_look = now + nanoseconds_per_second;
      const WindowedRate known = rate(so_far, m_context.timing.clock->now());
      show_progress(m_context, shown_as, begun, seconds, known.kept > 0 ? known.estimate.value : -1);
      return known.kept >= 10 && known.estimate.relative_half_width() <= narrow_enough;
    });
  }

  /// Of the loader alone, from shortly after the first batch.
  [[nodiscard]] WindowedRate loader_rate(const TrainingLog& log, Nanoseconds end) const {
    const Nanoseconds begin = log.first_batch > 0 ? log.first_batch + to_nanoseconds(settle_seconds) : 0;
    return windowed_rate(m_observer.progress(), m_observer.cpu(), begin, end, m_context.inputs.host, judge_cpu(m_context));
  }
  [[nodiscard]] WindowedRate loader_rate() const { return loader_rate(m_log, m_log.ended); }
  /// Of what the accelerators trained after `begin`.
  [[nodiscard]] WindowedRate training_rate(const TrainingLog& log, Nanoseconds begin) const {
    if (log.completions.empty() || log.completions.back().end <= begin) return {};
    return windowed_rate(log.progress(), m_observer.cpu(), begin, log.completions.back().end, m_context.inputs.host, judge_cpu(m_context));
  }

  /// The run as recorded under `name`, with its rate.
  [[nodiscard]] Measured measured(const std::string& name, const WindowedRate& rate, const std::string& method) const {
    Measured measured;
    measured.record = record_run(name, m_context, m_pipeline, *m_loader, m_observer, m_log);
    measured.times = m_loader->times();
    measured.record.storage_bytes = storage_bytes();
    measured.rate = record_rate(m_context, name, rate, mean_sample_bytes(m_context), method);
    take_rate(m_context, measured);
    return measured;
  }

  /// What storage gave since the begin, where that is known.
  [[nodiscard]] std::optional<Bytes> storage_bytes() const {
    const auto now = m_storage();
    return now && m_storage_before ? std::optional<Bytes>(*now - *m_storage_before) : std::nullopt;
  }
  [[nodiscard]] Bytes requested_bytes() const { return m_pipeline.engine().requested() - m_requested_before; }
  [[nodiscard]] const Loader& loader() const { return *m_loader; }
  [[nodiscard]] const Trainer& trainer() const { return *m_trainer; }
  [[nodiscard]] const Observer& observer() const { return m_observer; }
  [[nodiscard]] const TrainingLog& log() const { return m_log; }

 private:
  RunContext& m_context;
  Pipeline& m_pipeline;
  std::function<std::optional<Bytes>()> m_storage;
  std::optional<Bytes> m_storage_before;
  Bytes m_requested_before;
  std::unique_ptr<Loader> m_loader;
  std::unique_ptr<Trainer> m_trainer;
  Observer m_observer;
  TrainingLog m_log;
};

}  // namespace

void make_cold(RunContext& context) {
  if (context.inputs.settings.storage != Seam::real || context.way.mode == ReadMode::direct) return;
  drop_from_page_cache(*context.subset, context.stop);
  const Residency residency = page_cache_residency(*context.subset, residency_files);
  if (residency.fraction() > residency_allowed) {
    context.distrust("not-evicted", fmt::format("{:.0f} % of the subset stayed in the page cache although it was asked to be dropped (another "
                                                "process may hold it): cold runs are too fast.",
                                                residency.fraction() * 100));
  }
}

Measured run_fetch(RunContext& context, double seconds) {
  make_cold(context);
  Pipeline pipeline(context.inputs, run_spec(context, CacheKind::none, 0), context.timing);
  MeteredRun run(context, pipeline, {.prep = PrepUse::none}, Takes::nothing);
  // Drop-behind keeps later epochs cold as well; the meter proves all of them together.
  run.run_for("fetch", seconds, [&](const TrainingLog& log, Nanoseconds end) { return run.loader_rate(log, end); });

  Measured measured =
      run.measured("fetch", run.loader_rate(),
                   fmt::format("cold reads of whole samples in {} order by {}, no prep, {} in flight", order_kind_name(context.inputs.settings.order),
                               way_name(context.way), context.inputs.settings.fetch_concurrency));
  measured.record.requested_bytes = run.requested_bytes();
  prove_cold(context, measured.record, measured.record.storage_bytes, measured.record.requested_bytes);
  report_failures(context, "fetch", run.loader());
  note_rate(context, "storage can supply [S]", measured.rate);
  return measured;
}

/// Its share of a budget of seconds is shorter than a busy machine's pauses, and without a full cache there is no P.
constexpr double least_filling_seconds = 4;

bool fill_cache(RunContext& context, Pipeline& pipeline, double seconds) {
  const double allowed = std::max(seconds, least_filling_seconds);
  auto loader = pipeline.make_loader({.prep = PrepUse::none, .epochs = 1});
  auto trainer = make_null_trainer();
  const Nanoseconds begun = context.timing.clock->now();
  bool in_time = true;
  train(
      *loader, *trainer,
      [&](const TrainingLog& so_far) {
        show_progress(context, "filling the cache", begun, allowed, mean_rate(so_far, context.timing.clock->now()));
        in_time = to_seconds(context.timing.clock->now() - begun) < allowed;
        return !in_time;
      },
      context.stop, context.timing);
  if (!in_time) {
    context.distrust(
        "cache-not-filled",
        "filling the cache took longer than its share of the time budget, so P is not measured. Pass a longer --time-budget or a smaller --subset.");
  }
  return in_time;
}

Measured run_prep(RunContext& context, Pipeline& pipeline, double seconds) {
  // Training goes on while a GPU prepares, and slows it down.
  std::optional<OccupiedGpu> training;
  if (context.inputs.gpu && context.inputs.settings.gpu_share > 0) training.emplace(context.inputs.gpu, context.timing);
  MeteredRun run(context, pipeline, {.first_epoch = 1}, Takes::nothing);
  run.run_for("prep", seconds, [&](const TrainingLog& log, Nanoseconds end) { return run.loader_rate(log, end); });

  if (training) training->finish();

  const ProfileSettings& settings = context.inputs.settings;
  Measured measured = run.measured("prep", run.loader_rate(),
                                   fmt::format("loader alone on a cached subset, {} workers on {} cores", settings.workers, settings.cores));
  const auto prepared = static_cast<double>(run.loader().totals().prep.samples);
  prove_cached(context, measured.record, measured.record.storage_bytes, static_cast<Bytes>(prepared * mean_sample_bytes(context)));
  report_failures(context, "prep", run.loader());
  note_rate(context, "prep can supply [P]", measured.rate);
  return measured;
}

std::vector<int> fewer_cores(int all) {
  std::vector<int> fewer;
  for (int cores = 1; cores < all; cores *= 2) fewer.push_back(cores);
  return fewer;
}

std::optional<CorePoint> measure_on_cores(RunContext& context, Pipeline& pipeline, int cores, double seconds) {
  MeteredRun run(context, pipeline, {.first_epoch = 1, .cores = cores}, Takes::nothing);
  run.run_for(fmt::format("prep, {} of {} cores", cores, context.inputs.settings.cores), seconds,
              [&](const TrainingLog& log, Nanoseconds end) { return run.loader_rate(log, end); });
  const Estimate estimate = run.loader_rate().estimate;
  if (estimate.value <= 0) return std::nullopt;
  return CorePoint{cores, estimate.value, estimate.windows > 1 ? std::optional(estimate.ci95) : std::nullopt};
}

Measured run_cached(RunContext& context, Pipeline& pipeline, double seconds) {
  MeteredRun run(context, pipeline, {.first_epoch = 1}, Takes::training);
  const auto rate_of = [&](const TrainingLog& log) {
    return log.completions.empty() ? WindowedRate{} : run.training_rate(log, log.completions.front().end);
  };
  run.run_for("cached", seconds, [&](const TrainingLog& log, Nanoseconds) { return rate_of(log); });

  Measured measured = run.measured("cached", rate_of(run.log()), "cached subset with the accelerator");
  record_accelerators(measured.record, context.inputs.settings, run.log(), run.trainer());
  prove_cached(context, measured.record, measured.record.storage_bytes,
               static_cast<Bytes>(static_cast<double>(measured.record.samples) * mean_sample_bytes(context)));
  note_rate(context, "training from memory", measured.rate);
  return measured;
}

Pipeline::Spec full_spec(RunContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  Pipeline::Spec spec = run_spec(context, holds_samples(settings.cache) ? settings.cache : CacheKind::none, context.subset_cache_bytes);
  if (settings.cache == CacheKind::page) spec.page_cache = PageCacheUse::keep;
  if (settings.admission == Admission::cost_aware) {
    spec.storage_cost = fitted_storage_cost(context);
    spec.least_priority = admission_threshold(context.subset->records(), spec.storage_cost, context.subset_cache_bytes);
  }
  return spec;
}

namespace {

/// When the full run is over: two epochs at least, all of them within its time, and longer while its rate is not narrow.
class FullCourse {
 public:
  FullCourse(RunContext& context, double seconds, const MeteredRun& run)
      : m_context(context), m_run(run), m_epochs(static_cast<std::uint64_t>(context.inputs.settings.epochs)), m_seconds(seconds) {}

  bool is_over(const TrainingLog& log) {
    for (; m_seen < log.completions.size(); ++m_seen) {
      if (!log.completions[m_seen].last_of_epoch) continue;
      ++m_ended;
      if (log.completions[m_seen].epoch == 0) m_first_end = log.completions[m_seen].end;
    }
    const Nanoseconds now = m_context.timing.clock->now();
    const double elapsed = to_seconds(now - m_begun);
    if (m_ended >= 2 && elapsed >= m_seconds) return true;
    if (elapsed >= 1.5 * m_seconds || m_context.budget_spent()) return true;
    if (now < m_next_look) return false;
    m_next_look = now + nanoseconds_per_second;
    show_progress(m_context, fmt::format("full, epoch {}", m_ended + 1), m_begun, m_seconds, mean_rate(log, now));
    if (m_ended < m_epochs) return false;
    const WindowedRate known = rate(log);
    return known.kept >= 10 && known.estimate.relative_half_width() <= narrow_enough;
  }

  /// After the first epoch.
  [[nodiscard]] WindowedRate rate(const TrainingLog& log) const { return m_first_end == 0 ? WindowedRate{} : m_run.training_rate(log, m_first_end); }

  void report() const {
    if (m_ended < 2) {
      m_context.distrust("full-run-cut-short",
                         "run \"full\" did not finish its second epoch within the time budget: pass a longer --time-budget or a smaller --subset.");
    } else if (m_ended < m_epochs) {
      m_context.find(Finding::Severity::warning, "fewer-epochs",
                     fmt::format("run \"full\" ended after {} epochs of {}: the time budget was over.", m_ended, m_epochs));
    }
  }

 private:
  RunContext& m_context;
  const MeteredRun& m_run;
  std::uint64_t m_epochs;
  double m_seconds;
  Nanoseconds m_begun = m_context.timing.clock->now();
  Nanoseconds m_next_look = 0;
  Nanoseconds m_first_end = 0;
  std::size_t m_seen = 0;
  std::uint64_t m_ended = 0;  ///< epochs
};

void note_learning(RunContext& context, const RunRecord& record) {
  if (!record.training) return;
  const std::string text = nothing_learned_text(record.name, *record.training);
  if (!text.empty()) context.find(Finding::Severity::info, "nothing-learned", text);
}

}  // namespace

Measured run_full(RunContext& context, double seconds) {
  make_cold(context);
  const ProfileSettings& settings = context.inputs.settings;
  const Pipeline::Spec spec = full_spec(context);
  PageCacheLimit page_cache(context);
  Pipeline pipeline(context.inputs, spec, context.timing);
  const auto trace = make_trace(context, spec);
  const auto spans = make_span_recorder(context);
  MeteredRun run(context, pipeline, {.recorder = trace.get(), .spans = spans.get()}, Takes::training);
  FullCourse course(context, seconds, run);
  run.run_until([&](const TrainingLog& log) {
    if (course.is_over(log) || (trace && trace->failed())) return true;
    page_cache.adjust(context.timing.clock->now());
    return false;
  });
  page_cache.end();
  if (trace) {
    trace->finish();
    context.events.note(fmt::format("trace of {} accesses written to {}", trace->recorded(), context.inputs.trace_file.native()));
  }

  Measured measured = run.measured("full", course.rate(run.log()), "cold start, everything on, first epoch apart");
  record_accelerators(measured.record, settings, run.log(), run.trainer());
  note_learning(context, measured.record);
  measured.record.requested_bytes = run.requested_bytes();
  course.report();
  page_cache.report(context);
  if (settings.storage == Seam::real && settings.cache != CacheKind::page)
    prove_cold(context, measured.record, measured.record.storage_bytes, measured.record.requested_bytes);
  report_failures(context, "full", run.loader());
  note_rate(context, "all together", measured.rate);
  if (spans) write_run_trace(context, *spans, run.loader(), run.observer(), run.log());
  return measured;
}

}  // namespace dsanalyze
