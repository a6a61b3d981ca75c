#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/error.hpp"
#include "io_choice.hpp"
#include "job_runs.hpp"
#include "page_cache_limit.hpp"
#include "reference_training.hpp"
#include "run_support.hpp"
#include "run_trace.hpp"
#include "storage_cost_fit.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t residency_files = 256;
constexpr double least_cold_share = 0.98;  ///< of the bytes asked for must come from the device in a cold run
constexpr double most_cold_share = 1.05;
constexpr double residency_allowed = 0.01;
constexpr double settle_seconds = 0.2;  ///< after the first batch, before the first window

/// Stops a run at its time, or earlier once its rate is narrow. Looks at the windows once a second.
class EnoughTime {
 public:
  EnoughTime(RunContext& context, std::string run, double seconds)
      : m_context(context), m_run(std::move(run)), m_seconds(seconds), m_begun(context.timing.clock->now()) {}
  /// `rate` gives the rate as known now.
  template <typename Rate>
  bool operator()(Rate rate) {
    const Nanoseconds now = m_context.timing.clock->now();
    if (to_seconds(now - m_begun) >= m_seconds || m_context.budget_spent()) return true;
    if (now < m_next_look) return false;
    m_next_look = now + nanoseconds_per_second;
    const WindowedRate known = rate();
    show_progress(m_context, m_run, m_begun, m_seconds, known.kept > 0 ? known.estimate.value : -1);
    return known.kept >= 10 && known.estimate.relative_half_width() <= narrow_enough;
  }

 private:
  RunContext& m_context;
  std::string m_run;
  double m_seconds;
  Nanoseconds m_begun;
  Nanoseconds m_next_look = 0;
};

/// Samples/s since the run began, for who waits; the result's rates come from windows.
double mean_rate(const TrainingLog& log, Nanoseconds now) {
  std::uint64_t samples = 0;
  for (const BatchCompletion& completion : log.completions) samples += completion.samples;
  return samples > 0 ? static_cast<double>(samples) / to_seconds(now - log.begun) : -1;
}

/// The steady part of a run without an accelerator: from shortly after the first batch to the last look.
Nanoseconds steady_begin(const TrainingLog& log) { return log.first_batch > 0 ? log.first_batch + to_nanoseconds(settle_seconds) : 0; }

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
  if (device && *device * 2 >= asked) context.meter_moves = true;
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
                 fmt::format("run \"{}\": storage delivered {:.0f} % of the bytes asked for; reading ahead costs bandwidth.", run.name, share * 100));
  }
}

/// Proof of a cached run: nothing came from storage.
void prove_cached(RunContext& context, RunRecord& run, std::optional<Bytes> device, Bytes used) {
  const StorageMeter meter(context.subset->facts().root);
  const bool is_real = context.inputs.settings.storage == Seam::real;
  if (is_real) run.storage_proof = StorageProof::unproved;
  if (!device) {
    distrust_unmetered(context, run.name, meter.method(), "cached");
  } else if (is_real && *device == 0 && !context.meter_moves) {
    distrust_unmetered(context, run.name, why_not_believed(meter), "cached");
  } else if (static_cast<double>(*device) > 0.001 * static_cast<double>(used)) {
    context.distrust(
        "cached-run-read-storage",
        fmt::format("run \"{}\" read {} from storage ({:.1f} % of its bytes): its rate is a lower bound. Pass a smaller --subset.", run.name,
                    format_bytes(*device), 100.0 * static_cast<double>(*device) / static_cast<double>(std::max<Bytes>(used, 1))));
  } else if (is_real) {
    run.storage_proof = proof_by(meter);
  }
}

/// Where the full run's accesses go; nullptr when nobody wants them.
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

std::optional<Bytes> difference(std::optional<Bytes> after, std::optional<Bytes> before) {
  return after && before ? std::optional<Bytes>(*after - *before) : std::nullopt;
}

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
  const auto storage = pipeline.storage_bytes();
  const auto before = storage();
  const Bytes asked_before = pipeline.engine().requested();
  auto loader = pipeline.make_loader({.prep = PrepUse::none});
  auto trainer = make_null_trainer();
  Observer observer(*loader, storage, context.inputs.host, context.timing);
  EnoughTime enough(context, "fetch", seconds);
  const TrainingLog log = train(
      *loader, *trainer,
      [&](const TrainingLog& so_far) {
        // Drop-behind keeps later epochs cold as well; the meter proves all of them together.
        return enough([&] {
          return windowed_rate(observer.progress(), observer.cpu(), steady_begin(so_far), context.timing.clock->now(), context.inputs.host,
                               judge_cpu(context));
        });
      },
      context.stop, context.timing);
  observer.stop();
  const auto device = difference(storage(), before);
  const Bytes asked = pipeline.engine().requested() - asked_before;

  Measured measured;
  measured.record = record_run("fetch", context, pipeline, *loader, observer, log);
  measured.times = loader->times();
  measured.record.storage_bytes = device;
  measured.record.requested_bytes = asked;
  const auto points = observer.progress();
  const WindowedRate rate = windowed_rate(points, observer.cpu(), steady_begin(log), log.ended, context.inputs.host, judge_cpu(context));
  measured.rate =
      record_rate(context, "fetch", rate, mean_sample_bytes(context),
                  fmt::format("cold reads of whole samples in {} order by {}, no prep, {} under way", order_kind_name(context.inputs.settings.order),
                              way_name(context.way), context.inputs.settings.fetch_concurrency));
  take_rate(context, measured);
  prove_cold(context, measured.record, device, asked);
  report_failures(context, "fetch", *loader);
  note_rate(context, "storage can deliver [S]", measured.rate);
  return measured;
}

bool fill_cache(RunContext& context, Pipeline& pipeline, double seconds) {
  auto loader = pipeline.make_loader({.prep = PrepUse::none, .epochs = 1});
  auto trainer = make_null_trainer();
  const Nanoseconds begun = context.timing.clock->now();
  bool in_time = true;
  train(
      *loader, *trainer,
      [&](const TrainingLog& so_far) {
        show_progress(context, "filling the cache", begun, seconds, mean_rate(so_far, context.timing.clock->now()));
        in_time = to_seconds(context.timing.clock->now() - begun) < seconds;
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
  const auto storage = pipeline.storage_bytes();
  const auto before = storage();
  auto loader = pipeline.make_loader({.first_epoch = 1});
  auto trainer = make_null_trainer();
  Observer observer(*loader, storage, context.inputs.host, context.timing);
  EnoughTime enough(context, "prep", seconds);
  const auto rate_of = [&](const TrainingLog& log, Nanoseconds end) {
    return windowed_rate(observer.progress(), observer.cpu(), steady_begin(log), end, context.inputs.host, judge_cpu(context));
  };
  const TrainingLog log = train(
      *loader, *trainer, [&](const TrainingLog& so_far) { return enough([&] { return rate_of(so_far, context.timing.clock->now()); }); },
      context.stop, context.timing);
  observer.stop();

  Measured measured;
  measured.record = record_run("prep", context, pipeline, *loader, observer, log);
  measured.times = loader->times();
  measured.record.storage_bytes = difference(storage(), before);
  measured.rate = record_rate(
      context, "prep", rate_of(log, log.ended), mean_sample_bytes(context),
      fmt::format("loader alone on a cached subset, {} workers on {} cores", context.inputs.settings.workers, context.inputs.settings.cores));
  take_rate(context, measured);
  const auto prepared = static_cast<double>(loader->totals().prep.samples);
  prove_cached(context, measured.record, measured.record.storage_bytes, static_cast<Bytes>(prepared * mean_sample_bytes(context)));
  report_failures(context, "prep", *loader);
  note_rate(context, "prep can deliver [P]", measured.rate);
  return measured;
}

std::vector<int> fewer_cores(int all) {
  std::vector<int> fewer;
  for (int cores = 1; cores < all; cores *= 2) fewer.push_back(cores);
  return fewer;
}

std::optional<CorePoint> measure_on_cores(RunContext& context, Pipeline& pipeline, int cores, double seconds) {
  auto loader = pipeline.make_loader({.first_epoch = 1, .cores = cores});
  auto trainer = make_null_trainer();
  Observer observer(*loader, pipeline.storage_bytes(), context.inputs.host, context.timing);
  EnoughTime enough(context, fmt::format("prep, {} of {} cores", cores, context.inputs.settings.cores), seconds);
  const auto rate_of = [&](const TrainingLog& log, Nanoseconds end) {
    return windowed_rate(observer.progress(), observer.cpu(), steady_begin(log), end, context.inputs.host, judge_cpu(context));
  };
  const TrainingLog log = train(
      *loader, *trainer, [&](const TrainingLog& so_far) { return enough([&] { return rate_of(so_far, context.timing.clock->now()); }); },
      context.stop, context.timing);
  observer.stop();
  const Estimate estimate = rate_of(log, log.ended).estimate;
  if (estimate.value <= 0) return std::nullopt;
  return CorePoint{cores, estimate.value, estimate.windows > 1 ? std::optional(estimate.ci95) : std::nullopt};
}

Measured run_cached(RunContext& context, Pipeline& pipeline, double seconds) {
  const auto storage = pipeline.storage_bytes();
  const auto before = storage();
  auto loader = pipeline.make_loader({.first_epoch = 1});
  auto trainer = make_trainer(context.inputs, pipeline.server().devices(), 0, *loader, context.timing);
  Observer observer(*loader, storage, context.inputs.host, context.timing);
  EnoughTime enough(context, "cached", seconds);
  const auto rate_of = [&](const TrainingLog& log) {
    if (log.completions.size() < 2) return WindowedRate{};
    return windowed_rate(log.progress(), observer.cpu(), log.completions.front().end, log.completions.back().end, context.inputs.host,
                         judge_cpu(context));
  };
  const TrainingLog log = train(
      *loader, *trainer, [&](const TrainingLog& so_far) { return enough([&] { return rate_of(so_far); }); }, context.stop, context.timing);
  observer.stop();

  Measured measured;
  measured.record = record_run("cached", context, pipeline, *loader, observer, log);
  record_accelerators(measured.record, context.inputs.settings, log, *trainer);
  measured.record.storage_bytes = difference(storage(), before);
  measured.rate = record_rate(context, "cached", rate_of(log), mean_sample_bytes(context), "cached subset with the accelerator");
  take_rate(context, measured);
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

Measured run_full(RunContext& context, double seconds) {
  make_cold(context);
  const ProfileSettings& settings = context.inputs.settings;
  const Pipeline::Spec spec = full_spec(context);
  PageCacheLimit page_cache(context);
  Pipeline pipeline(context.inputs, spec, context.timing);
  const auto storage = pipeline.storage_bytes();
  const auto before = storage();
  const auto trace = make_trace(context, spec);
  const auto spans = make_span_recorder(context);
  auto loader = pipeline.make_loader({.recorder = trace.get(), .spans = spans.get()});
  auto trainer = make_trainer(context.inputs, pipeline.server().devices(), 0, *loader, context.timing);
  Observer observer(*loader, storage, context.inputs.host, context.timing);
  const Nanoseconds begun = context.timing.clock->now();
  Nanoseconds next_look = 0;
  const auto last_epoch = static_cast<std::uint64_t>(settings.epochs) - 1;
  Nanoseconds first_end = 0;
  std::uint64_t ended_epochs = 0;
  const auto rate_of = [&](const TrainingLog& log) {
    if (first_end == 0 || log.completions.back().end <= first_end) return WindowedRate{};
    return windowed_rate(log.progress(), observer.cpu(), first_end, log.completions.back().end, context.inputs.host, judge_cpu(context));
  };
  std::size_t seen = 0;
  const TrainingLog log = train(
      *loader, *trainer,
      [&](const TrainingLog& so_far) {
        for (; seen < so_far.completions.size(); ++seen) {
          if (!so_far.completions[seen].last_of_epoch) continue;
          ++ended_epochs;
          if (so_far.completions[seen].epoch == 0) first_end = so_far.completions[seen].end;
        }
        const Nanoseconds now = context.timing.clock->now();
        const double elapsed = to_seconds(now - begun);
        if (ended_epochs >= 2 && elapsed >= seconds) return true;
        if (elapsed >= 1.5 * seconds || context.budget_spent() || (trace && trace->failed())) return true;
        page_cache.adjust(now);
        if (now < next_look) return false;
        next_look = now + nanoseconds_per_second;
        show_progress(context, fmt::format("full, epoch {}", ended_epochs + 1), begun, seconds, mean_rate(so_far, now));
        if (ended_epochs <= last_epoch) return false;
        const WindowedRate known = rate_of(so_far);
        return known.kept >= 10 && known.estimate.relative_half_width() <= narrow_enough;
      },
      context.stop, context.timing);
  page_cache.end();
  observer.stop();
  if (trace) {
    trace->finish();
    context.events.note(fmt::format("trace of {} accesses written to {}", trace->recorded(), context.inputs.trace_file.native()));
  }

  Measured measured;
  measured.record = record_run("full", context, pipeline, *loader, observer, log);
  record_accelerators(measured.record, settings, log, *trainer);
  if (measured.record.training) {
    const std::string text = nothing_learned_text("full", *measured.record.training);
    if (!text.empty()) context.find(Finding::Severity::info, "nothing-learned", text);
  }
  measured.record.storage_bytes = difference(storage(), before);
  measured.record.requested_bytes = pipeline.engine().requested();
  measured.rate = record_rate(context, "full", rate_of(log), mean_sample_bytes(context), "cold start, everything on, first epoch apart");
  take_rate(context, measured);
  if (ended_epochs < 2) {
    context.distrust("full-run-cut-short",
                     "run \"full\" did not finish its second epoch within the time budget: pass a longer --time-budget or a smaller --subset.");
  } else if (ended_epochs <= last_epoch) {
    context.find(Finding::Severity::warning, "fewer-epochs",
                 fmt::format("run \"full\" ended after {} epochs of {}: the time budget was over.", ended_epochs, settings.epochs));
  }
  page_cache.report(context);
  if (settings.storage == Seam::real && settings.cache != CacheKind::page)
    prove_cold(context, measured.record, measured.record.storage_bytes, measured.record.requested_bytes);
  report_failures(context, "full", *loader);
  note_rate(context, "all together", measured.rate);
  if (spans) write_run_trace(context, *spans, *loader, observer, log);
  return measured;
}

}  // namespace dsanalyze
