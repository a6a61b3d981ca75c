#include "dependent_run.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/enum_names.hpp"
#include "core/depths.hpp"
#include "core/trace/draw_trace.hpp"
#include "dependent_host.hpp"
#include "loaders/slot_pool.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes most_state_bytes = Bytes{4} << 30U;

/// The coordinator's own loading is of batches of one.
LoadInputs inputs_of_samples(const LoadInputs& inputs) {
  LoadInputs one = inputs;
  one.settings.batch_size = 1;
  one.settings.accelerators = 1;
  one.settings.jobs = 1;
  return one;
}

std::uint32_t store_places(const ByteAmount& amount, Bytes place_bytes, std::uint64_t samples) {
  const auto all = static_cast<double>(samples);
  const double places =
      amount.kind == ByteAmount::Kind::fraction ? amount.fraction * all : static_cast<double>(amount.bytes) / static_cast<double>(place_bytes);
  return static_cast<std::uint32_t>(std::min(places, all));
}

DependentState resumed_state(const std::filesystem::path& path, const GroupTerms& terms) {
  return path.empty() ? DependentState{} : parse_dependent_state(read_file(path, most_state_bytes), path.string(), terms);
}

DependentFeedSpec feed_spec(const DependentRun::Spec& spec, DrawRecorder* recorder) {
  DependentFeedSpec feed;
  feed.index = spec.inputs.index;
  feed.sample = slot_tensor(spec.inputs, 1);
  feed.seed = spec.inputs.settings.seed;
  feed.on_error = spec.inputs.settings.on_error;
  const ProfileSettings& settings = spec.inputs.settings;
  if (settings.staging_size) feed.store_places = store_places(*settings.staging_size, SlotLayout(feed.sample).bytes, spec.inputs.index->size());
  feed.policy = settings.staging_policy.value_or(StagingPolicy::refcnt);
  feed.recorder = recorder;
  feed.held = spec.together;
  feed.in_flight = dependent_in_flight(spec.inputs.settings.fetch_concurrency, spec.inputs.settings.workers);
  return feed;
}

DependentFeedSpec with_resumed(DependentFeedSpec feed, const DependentRun::Spec& spec, DependentGroup::State& resumed) {
  if (!spec.resume.empty()) feed.resumed = std::move(resumed);
  return feed;
}

std::unique_ptr<DrawTraceWriter> make_trace(const DependentRun::Spec& spec) {
  if (spec.trace.empty()) return nullptr;
  const DependentFeedSpec feed = feed_spec(spec, nullptr);
  return std::make_unique<DrawTraceWriter>(spec.trace, DrawTraceHeader{static_cast<std::uint32_t>(feed.index->size()), feed.index->facts().digest,
                                                                       feed.seed, feed.policy, feed.store_places, SlotLayout(feed.sample).bytes});
}

}  // namespace

struct DependentRun::State {
  State(Spec given, Timing timing, std::function<void(const GroupEvent&)> given_events)
      : spec(std::move(given)),
        events(std::move(given_events)),
        inputs(inputs_of_samples(spec.inputs)),
        terms(spec.inputs, spec.pipeline, {spec.epochs, spec.held}),
        trace(make_trace(spec)),
        resumed(resumed_state(spec.resume, terms.defaults())),
        feed_settings(with_resumed(feed_spec(spec, trace.get()), spec, resumed.group)),
        server(Pipeline::make_server(inputs, spec.pipeline, static_cast<int>(feed_settings.in_flight), timing)),
        feed(feed_settings, timing),
        pipeline(inputs, with_server(spec.pipeline, server), timing),
        host({&terms, &feed, spec.inputs.index, server.get(), static_cast<std::uint32_t>(spec.inputs.settings.jobs), spec.socket, timing,
              [this](const GroupEvent& event) { saw(event); }, std::move(resumed.jobs)}) {
    stored_before = pipeline.storage_bytes()();
    loader = pipeline.make_loader({.staging = &feed, .staging_slots = feed_settings.in_flight, .claimed = &feed});
  }
  ~State() { stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static Pipeline::Spec with_server(Pipeline::Spec pipeline, std::shared_ptr<ServerHolder> server) {
    pipeline.server = std::move(server);
    return pipeline;
  }
  void saw(const GroupEvent& event) {
    if (event.kind == GroupEvent::Kind::late) late.fetch_add(1);
    if (event.kind == GroupEvent::Kind::refused) refused.fetch_add(1);
    if (event.kind == GroupEvent::Kind::died || event.kind == GroupEvent::Kind::garbage) departures.fetch_add(1);
    if (events) events(event);
  }
  void look() {
    most_shared = std::max(most_shared, host.state().shared_bytes);
    if (!loader->failure().empty()) throw Error(loader->failure());
    if (const std::string failure = feed.failure(); !failure.empty()) throw Error(failure);
  }
  void stop() {
    feed.stop();
    if (loader != nullptr) loader->stop();
  }
  /// Nothing is drawn any more.
  void finish_trace() {
    feed.stop_recording();
    if (trace == nullptr) return;
    try {
      trace->finish();
    } catch (const Error& error) {
      trace_failure = error.what();
    }
  }

  const Spec spec;
  const std::function<void(const GroupEvent&)> events;
  std::atomic<std::uint64_t> late{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> departures{0};
  Bytes most_shared = 0;
  const LoadInputs inputs;  ///< of single samples
  const DependentTerms terms;
  std::unique_ptr<DrawTraceWriter> trace;
  std::string trace_failure;
  DependentState resumed;  ///< handed on to feed and host
  const DependentFeedSpec feed_settings;
  std::shared_ptr<ServerHolder> server;
  DependentFeed feed;
  Pipeline pipeline;
  DependentHost host;
  std::optional<Bytes> stored_before;
  std::unique_ptr<Loader> loader;  ///< ends before the host and the feed
};

DependentRun::DependentRun(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events)
    : m_state(std::make_unique<State>(std::move(spec), timing, std::move(events))) {}
DependentRun::~DependentRun() = default;

std::string DependentRun::trace_failure() const { return m_state->trace_failure; }
GroupServer::Counts DependentRun::counts() const { return {m_state->late.load(), m_state->refused.load(), m_state->departures.load()}; }

GroupServer::Prepared DependentRun::prepared() const {
  const State& state = *m_state;
  const LoaderTotals totals = state.loader->totals();
  const auto stored = state.pipeline.storage_bytes()();
  return {totals.prep.samples,
          totals.hits,
          totals.misses,
          state.pipeline.engine().requested(),
          stored && state.stored_before ? std::optional<Bytes>(*stored - *state.stored_before) : std::nullopt,
          {}};
}

void DependentRun::begin() { m_state->feed.begin(); }

std::optional<DependentRun::Drawn> DependentRun::drawn_by(std::uint32_t place) const {
  const auto by = m_state->feed.drawn_by(place);
  if (!by || by->drawn == 0) return std::nullopt;
  return Drawn{by->drawn, by->group.drawn, by->group.prepared};
}

FileDescriptor DependentRun::connect() { return m_state->host.connect(); }
std::string DependentRun::address() const { return m_state->host.address(); }
const GroupTerms& DependentRun::terms() const { return m_state->terms.defaults(); }
GroupHost::State DependentRun::state() const { return m_state->host.state(); }
std::vector<GroupJobAccount> DependentRun::jobs() const { return m_state->host.accounts(); }

bool DependentRun::wait_over(Deadline deadline) {
  const bool over = m_state->host.wait_over(deadline);
  m_state->look();
  return over;
}

void DependentRun::save_state(const std::filesystem::path& path) {
  State& state = *m_state;
  DependentState saved;
  saved.jobs = state.host.stop();
  saved.group = state.feed.state();
  const GroupTerms& terms = state.terms.defaults();
  saved.dataset_digest = terms.dataset_digest;
  saved.prep = terms.prep;
  saved.seed = terms.seed;
  write_file_atomically(path, to_text(saved));
}

ShareResult DependentRun::finish() {
  State& state = *m_state;
  state.stop();
  state.finish_trace();
  const ProfileSettings& settings = state.spec.inputs.settings;
  const GroupTerms& terms = state.terms.defaults();
  const std::vector<GroupJobAccount> jobs = state.host.accounts();
  ShareResult result = share_result_of(*state.spec.inputs.index, settings.dataset, terms, jobs);
  result.terms.jobs = static_cast<std::uint32_t>(settings.jobs);
  result.terms.producers = producers_name(Producers::coordinator);
  result.terms.share = job_sharing_name(JobSharing::dependent);
  result.terms.cache = cache_kind_name(settings.cache);
  result.terms.cache_bytes = holds_samples(settings.cache) ? state.spec.pipeline.cache_bytes : 0;
  result.epochs = state.host.state().opened_epochs;
  result.samples_prepared = state.loader->totals().prep.samples;
  result.requested_bytes = state.pipeline.engine().requested();
  result.late_reports = state.late.load();
  result.refused = state.refused.load();
  const StagingFacts& staging = terms.staging;
  const std::uint64_t staged = std::uint64_t{staging.window()} * result.terms.jobs;
  const Bytes constant = staging.constant_bytes() * result.terms.jobs;
  result.memory = {staging.prefetch,
                   staged,
                   staging.slot_bytes,
                   constant,
                   staged * staging.slot_bytes + constant,
                   std::max(state.most_shared, state.host.state().shared_bytes)};
  const DependentFeed::Totals totals = state.feed.totals();
  result.dependent = ShareDependentRecord{totals.rounds,
                                          totals.drawn,
                                          totals.prepared,
                                          totals.from_store,
                                          enum_name(state.feed_settings.policy),
                                          state.feed_settings.store_places,
                                          state.feed_settings.in_flight,
                                          state.feed.memory_bytes()};
  return result;
}

}  // namespace dsanalyze
