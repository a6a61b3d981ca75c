#include <fmt/format.h>

#include <algorithm>

#include "child_jobs.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/share/load_plan.hpp"
#include "job_runs.hpp"
#include "page_cache_limit.hpp"
#include "run_support.hpp"

namespace dsanalyze {
namespace {

constexpr double seen_within_seconds = 1;
constexpr double ended_within_seconds = 60;  ///< jobs that were told that no epoch follows, or that have theirs

LoadPlan load_plan(const RunContext& context, const Pipeline::Spec& spec) {
  const ProfileSettings& settings = context.inputs.settings;
  LoadPlan plan;
  plan.settings = settings;
  plan.image_prep = context.inputs.image_prep;
  plan.slow_prep = context.inputs.slow_prep;
  plan.way = spec.way;
  plan.page_cache = spec.page_cache;
  plan.storage_cost = spec.storage_cost;
  plan.workers = settings.producers == Producers::jobs ? std::max(1, settings.workers / settings.jobs) : settings.workers;
  return plan;
}

/// What the host saw, for the result and for who watches.
class GroupLog {
 public:
  explicit GroupLog(EventSink& events) : m_events(events) {}
  void operator()(const GroupEvent& event) {
    const std::scoped_lock lock(m_mutex);
    if (event.kind == GroupEvent::Kind::late) ++m_late;
    if (event.kind == GroupEvent::Kind::died || event.kind == GroupEvent::Kind::garbage) {
      ++m_departures;
      m_events.note(event.text);
    }
  }
  [[nodiscard]] std::uint64_t late() const {
    const std::scoped_lock lock(m_mutex);
    return m_late;
  }
  [[nodiscard]] std::uint64_t departures() const {
    const std::scoped_lock lock(m_mutex);
    return m_departures;
  }

 private:
  EventSink& m_events;
  mutable std::mutex m_mutex;
  std::uint64_t m_late = 0;
  std::uint64_t m_departures = 0;
};

/// What the jobs of a group say that they did for one another, those that died too.
void add_accounts(SharingRecord& sharing, const GroupHost& host) {
  Nanoseconds control = host.control_time();
  std::uint64_t passed_on = 0;
  for (const GroupJobAccount& job : host.accounts()) {
    sharing.taken_over_batches += job.counts.batches_taken_over;
    control += job.counts.control_time;
    passed_on = std::max(passed_on, job.counts.batches_taken);
  }
  if (passed_on > 0 && control > 0) sharing.handover_seconds_per_batch = to_seconds(control) / static_cast<double>(passed_on);
}

/// Tells each job what now. Returns how many of them go on.
std::size_t answer_all(TrialSearch& search, std::span<const TrialSearch::Standing> standings, ChildJobs& children) {
  std::size_t going_on = 0;
  const std::vector<TrialSearch::Decision> decisions = search.decide(standings);
  for (std::size_t i = 0; i < standings.size(); ++i) {
    const TrialSearch::Decision& decision = decisions[i];
    if (decision.kind != TrialSearch::Decision::Kind::stop) ++going_on;
    children.answer(standings[i].job, decision.kind == TrialSearch::Decision::Kind::go     ? std::string(job_messages::go)
                                      : decision.kind == TrialSearch::Decision::Kind::stop ? std::string(job_messages::stop)
                                                                                           : job_messages::trial(decision.trial));
  }
  return going_on;
}

}  // namespace

JobsMeasured run_coordinated_jobs(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  if (!context.inputs.start_job) throw Error("coordinated jobs are processes, and this program gave no way to start them");
  make_cold(context);
  Pipeline::Spec spec = full_spec(context);
  ProfileInputs inputs = context.inputs;
  inputs.index = context.subset;
  const auto server = Pipeline::make_server(inputs, spec, settings.jobs, context.timing);
  spec.server = server;
  const GroupTerms terms = group_terms(inputs, load_plan(context, spec), settings.trials > 0 ? 0 : static_cast<std::uint64_t>(settings.epochs));
  PageCacheLimit page_cache(context, terms.staging.staged_bytes() + static_cast<Bytes>(settings.jobs) * PageCacheLimit::of_a_job);
  GroupLog log(context.events);
  GroupHost host({terms, {}, context.subset, server.get(), context.timing, [&log](const GroupEvent& event) { log(event); }, {}});
  std::optional<Pipeline> pipeline;
  std::unique_ptr<Loader> loader;
  std::optional<Bytes> before;
  if (settings.producers == Producers::coordinator) {
    pipeline.emplace(inputs, spec, context.timing);
    before = pipeline->storage_bytes()();
    loader = make_group_loader(*pipeline, host, terms);
  }

  JobsMeasured measured;
  const Nanoseconds begun = context.timing.clock->now();
  ChildJobs children(inputs, host, context.timing);
  std::optional<TrialSearch> search;
  if (settings.trials > 0) search.emplace(settings);
  for (int job = 0; job < settings.jobs; ++job) {
    children.start(job);
    if (search) children.answer(job, job_messages::trial(search->begin(job).value_or(0)));
  }
  std::optional<std::size_t> epoch_due;  // when no more than so many jobs run
  Deadline deadline{INT64_MAX};
  while (children.running() > 0) {
    children.look(context.timing.clock->after(0.1));
    measured.sharing.shared_bytes = std::max(measured.sharing.shared_bytes, host.state().shared_bytes);
    if (context.stop.stop_requested()) throw Interrupted();
    if (search) {
      if (const auto standings = children.standings()) epoch_due = answer_all(*search, *standings, children);
    } else if (host.state().opened_epochs == 0 && children.running() < static_cast<std::size_t>(settings.jobs)) {
      epoch_due = children.running();  // some came to nothing before the first epoch, which waits for all
    }
    if (epoch_due && children.running() <= *epoch_due) {
      epoch_due.reset();
      host.begin();
    }
    const Nanoseconds now = context.timing.clock->now();
    if (host.state().opened_epochs > 1) page_cache.settle();
    page_cache.adjust(now);
    const double elapsed = to_seconds(now - begun);
    if (deadline.at == INT64_MAX && (elapsed >= 1.5 * seconds || context.budget_spent())) {
      host.end();
      deadline = context.timing.clock->after(ended_within_seconds + elapsed);
    }
    if (now >= deadline.at) {
      context.distrust("jobs-did-not-end",
                       fmt::format("{} jobs were still at work long after the time budget was over, and were killed: pass a longer "
                                   "--time-budget, a smaller --subset or fewer --epochs.",
                                   children.running()));
      children.kill_all();
    }
    if (loader != nullptr && !loader->failure().empty()) throw Error(loader->failure());
    show_progress(context, fmt::format("full, {} coordinated jobs, epoch {}", settings.jobs, std::max<std::uint64_t>(host.state().opened_epochs, 1)),
                  begun, seconds);
  }
  page_cache.end();
  if (loader != nullptr) loader->stop();
  static_cast<void>(host.wait_over(context.timing.clock->after(seen_within_seconds)));  // it has seen them all go, and what they did
  add_accounts(measured.sharing, host);
  measured.jobs = children.records();
  if (search) measured.trials = search->records();
  if (loader != nullptr) {
    const LoaderTotals totals = loader->totals();
    measured.sharing.samples_prepared += totals.prep.samples;
    measured.all.record.cache_hits += totals.hits;
    measured.all.record.cache_misses += totals.misses;
    measured.all.record.requested_bytes += pipeline->engine().requested();
  }
  sum_up(context, measured, to_seconds(context.timing.clock->now() - begun));
  if (loader != nullptr) {
    const auto after = pipeline->storage_bytes()();
    measured.all.record.storage_bytes = after && before ? std::optional<Bytes>(*after - *before) : std::nullopt;
  }
  for (const std::string& error : children.errors()) context.distrust("job-failed", error);

  SharingRecord& sharing = measured.sharing;
  sharing.share = job_sharing_name(settings.share);
  sharing.producers = producers_name(settings.producers);
  sharing.jobs = settings.jobs;
  sharing.prefetch_batches = static_cast<int>(terms.staging.prefetch);
  sharing.staged_batches = terms.staging.window();
  sharing.staged_bytes = terms.staging.staged_bytes();
  sharing.late_reports = log.late();
  sharing.departures = log.departures();
  measured.all.record.slot_bytes = sharing.staged_bytes;
  page_cache.report(context);
  note_rate(context, fmt::format("{} coordinated jobs together", settings.jobs), measured.all.rate);
  return measured;
}

}  // namespace dsanalyze
