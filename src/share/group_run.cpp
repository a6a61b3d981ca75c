#include "dsanalyze/share/group_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "dsanalyze/base/error.hpp"

namespace dsanalyze {
namespace {

LoadPlan run_plan(const GroupRun::Spec& spec) {
  const ProfileSettings& settings = spec.inputs.settings;
  LoadPlan plan;
  plan.settings = settings;
  plan.image_prep = spec.inputs.image_prep;
  plan.slow_prep = spec.inputs.slow_prep;
  plan.way = spec.way;
  plan.page_cache = settings.cache == CacheKind::page ? PageCacheUse::keep : PageCacheUse::drop;
  plan.workers = settings.producers == Producers::jobs ? std::max(1, settings.workers / settings.jobs) : settings.workers;
  return plan;
}

GroupTerms run_terms(const GroupRun::Spec& spec) {
  GroupTerms terms = group_terms(spec.inputs, run_plan(spec), spec.epochs);
  const std::uint32_t most_held = std::min(terms.staging.slots(), staging_most_held);
  if (spec.held > most_held) {
    throw UsageError(fmt::format("a job of this group may hold at most {} batches at once, not {}: what is staged is bounded; pass --held {}{}",
                                 most_held, spec.held, most_held, terms.staging.jobs > 1 ? ", or fewer --jobs" : ""));
  }
  terms.staging.held = spec.held;
  terms.staging.validate();
  return terms;
}

Pipeline::Spec run_pipeline(const GroupRun::Spec& spec) {
  const ProfileSettings& settings = spec.inputs.settings;
  Pipeline::Spec pipeline;
  pipeline.index = spec.inputs.index;
  pipeline.cache = holds_samples(settings.cache) ? settings.cache : CacheKind::none;
  pipeline.cache_bytes = spec.cache_bytes;
  pipeline.page_cache = settings.cache == CacheKind::page ? PageCacheUse::keep : PageCacheUse::drop;
  pipeline.workers = settings.workers;
  pipeline.way = spec.way;
  return pipeline;
}

std::string end_name(GroupJobAccount::End end) {
  switch (end) {
    case GroupJobAccount::End::left:
      return "left";
    case GroupJobAccount::End::died:
      return "died";
    case GroupJobAccount::End::garbage:
      return "put-out";
    case GroupJobAccount::End::none:
      break;
  }
  return "attached";
}

ShareJobRecord record_of(const GroupJobAccount& job) {
  const StagingCounts& counts = job.counts;
  return {job.place,           job.process,         job.first_epoch,           end_name(job.end),     counts.batches_taken, counts.samples_taken,
          counts.batches_made, counts.samples_made, counts.batches_taken_over, counts.requested_bytes};
}

}  // namespace

struct GroupRun::State {
  State(Spec given, Timing given_timing, std::function<void(const GroupEvent&)> given_events)
      : spec(std::move(given)),
        timing(given_timing),
        events(std::move(given_events)),
        pipeline_spec(run_pipeline(spec)),
        server(Pipeline::make_server(spec.inputs, pipeline_spec, spec.inputs.settings.jobs, timing)),
        terms(run_terms(spec)),
        host({terms, spec.socket, spec.inputs.index, server.get(), timing, [this](const GroupEvent& event) { saw(event); }, {}}) {
    pipeline_spec.server = server;
    if (spec.inputs.settings.producers != Producers::coordinator) return;
    pipeline.emplace(spec.inputs, pipeline_spec, timing);
    loader = make_group_loader(*pipeline, host, terms);
  }

  void saw(const GroupEvent& event) {
    if (event.kind == GroupEvent::Kind::late) late.fetch_add(1);
    if (event.kind == GroupEvent::Kind::refused) refused.fetch_add(1);
    if (events) events(event);
  }

  const Spec spec;
  Timing timing;
  std::function<void(const GroupEvent&)> events;
  std::atomic<std::uint64_t> late{0};
  std::atomic<std::uint64_t> refused{0};
  Bytes most_shared = 0;
  Pipeline::Spec pipeline_spec;
  std::shared_ptr<ServerHolder> server;
  const GroupTerms terms;
  GroupHost host;
  std::optional<Pipeline> pipeline;
  std::unique_ptr<Loader> loader;
};

GroupRun::GroupRun(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events)
    : m_state(std::make_unique<State>(std::move(spec), timing, std::move(events))) {}
GroupRun::~GroupRun() = default;

std::string GroupRun::address() const { return m_state->host.address(); }
const GroupTerms& GroupRun::terms() const { return m_state->terms; }
GroupHost::State GroupRun::state() const { return m_state->host.state(); }
void GroupRun::begin() { m_state->host.begin(); }

bool GroupRun::wait_over(Deadline deadline) {
  State& state = *m_state;
  const bool over = state.host.wait_over(deadline);
  state.most_shared = std::max(state.most_shared, state.host.state().shared_bytes);
  if (state.loader != nullptr && !state.loader->failure().empty()) throw Error(state.loader->failure());
  return over;
}

ShareResult GroupRun::finish() {
  const State& state = *m_state;
  if (state.loader != nullptr) state.loader->stop();
  const ProfileSettings& settings = state.spec.inputs.settings;
  const DatasetIndex& index = *state.spec.inputs.index;
  const StagingFacts& staging = state.terms.staging;
  ShareResult result;
  result.dataset.path = settings.dataset;
  result.dataset.format = index.facts().format;
  result.dataset.samples = index.size();
  result.dataset.bytes = index.bytes();
  result.dataset.digest = index.facts().digest;
  result.terms = {staging.jobs,
                  producers_name(settings.producers),
                  staging.batch_size,
                  staging.batches_per_epoch,
                  state.terms.samples,
                  staging.epochs,
                  staging.held,
                  state.terms.seed,
                  state.terms.prep,
                  {state.terms.tensor.shape.begin(), state.terms.tensor.shape.begin() + state.terms.tensor.dimensions},
                  state.terms.tensor.dtype == DType::float32 ? "float32" : "uint8",
                  cache_kind_name(settings.cache),
                  holds_samples(settings.cache) ? state.spec.cache_bytes : 0};
  result.epochs = state.host.state().opened_epochs;
  if (state.loader != nullptr) {
    result.samples_prepared = state.loader->totals().prep.samples;
    result.requested_bytes = state.pipeline->engine().requested();
  }
  for (const GroupJobAccount& job : state.host.accounts()) {
    result.jobs.push_back(record_of(job));
    result.samples_prepared += job.counts.samples_made;
    result.batches_taken += job.counts.batches_taken;
    result.samples_taken += job.counts.samples_taken;
    result.batches_taken_over += job.counts.batches_taken_over;
    result.requested_bytes += job.counts.requested_bytes;
  }
  result.late_reports = state.late.load();
  result.refused = state.refused.load();
  result.memory = {staging.prefetch,
                   staging.window(),
                   staging.slot_bytes,
                   staging.constant_bytes(),
                   staging.staged_bytes() + staging.constant_bytes(),
                   std::max(state.most_shared, state.host.state().shared_bytes)};
  return result;
}

}  // namespace dsanalyze
