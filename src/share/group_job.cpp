#include "group_job.hpp"

#include <unistd.h>

#include <optional>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {

struct GroupJob::State {
  State(GroupMember::Parts parts, HostFacts host)
      : timing(parts.timing),
        kept_member(std::make_unique<GroupMember>(std::move(parts))),
        member(*kept_member),
        plan(load_plan_from_json(member.terms().settings, "the group's plan")) {
    inputs.settings = plan.settings;
    inputs.index = member.index();
    inputs.image_prep = plan.image_prep;
    inputs.host = std::move(host);
    if (inputs.index == nullptr) throw Error("cannot take part in the group: it handed over no index of its dataset");
  }

  [[nodiscard]] bool prepares() const { return member.terms().staging.producers == Producers::jobs; }
  void attach() {
    if (server != nullptr) return;
    server = attach_server(member.take_server_line(), timing);
  }
  void begin_to_prepare() {
    Pipeline::Spec spec;
    spec.index = inputs.index;
    spec.page_cache = plan.page_cache;
    spec.workers = plan.workers;
    spec.way = plan.way;
    spec.storage_cost = plan.storage_cost;
    spec.server = server;
    pipeline.emplace(inputs, spec, timing);
    loader = pipeline->make_loader({.staging = &member.job(), .staging_slots = member.terms().staging.slots()});
  }

  /// By itself: what a loader says whose group is lost is that it is.
  [[nodiscard]] bool loader_failed() const { return loader != nullptr && !loader->failure().empty() && !member.lost(); }
  void note_requested() {
    if (pipeline && !member.lost()) member.job().note_requested(pipeline->engine().requested());
  }

  const pid_t process = ::getpid();
  Timing timing;
  std::unique_ptr<GroupMember> kept_member;
  GroupMember& member;
  LoadPlan plan;
  LoadInputs inputs;
  std::shared_ptr<ServerScope> server;
  std::optional<Pipeline> pipeline;
  std::unique_ptr<Loader> loader;
  std::optional<GroupBatches> batches;
};

GroupJob::GroupJob(GroupMember::Parts parts, HostFacts host) : m_state(std::make_unique<State>(std::move(parts), std::move(host))) {
  m_state->attach();
}
GroupJob::~GroupJob() {
  if (m_state->process == ::getpid()) {
    stop();
  } else {
    // A child that was forked has a copy, and none of its threads: it is not the job, and only lets go of its end of the line.
    m_state->kept_member.reset();
    static_cast<void>(m_state.release());
  }
}

const GroupTerms& GroupJob::terms() const { return m_state->member.terms(); }
const LoadPlan& GroupJob::plan() const { return m_state->plan; }
const LoadInputs& GroupJob::inputs() const { return m_state->inputs; }
ServerScope& GroupJob::server() { return *m_state->server; }
GroupMember& GroupJob::member() { return m_state->member; }
const GroupMember& GroupJob::member() const { return m_state->member; }

Status GroupJob::enter(Deadline deadline, const std::function<void(std::uint64_t epoch, double seconds)>& waiting) {
  State& state = *m_state;
  const Status status = state.member.enter(deadline, waiting);
  if (!status.ok()) return status;
  if (state.prepares()) state.begin_to_prepare();
  state.batches.emplace(state.member, static_cast<std::uint32_t>(state.inputs.settings.accelerators));
  return {};
}

Status GroupJob::next(Batch& batch, Deadline deadline) {
  const State& state = *m_state;
  if (state.loader_failed()) return {StatusCode::corrupt, 0};
  if (!state.batches) return {StatusCode::cancelled, 0};
  return m_state->batches->next(batch, deadline);
}

void GroupJob::release(ReleaseToken token) {
  if (!m_state->batches) return;
  m_state->note_requested();
  m_state->batches->release(token);
}

const std::byte* GroupJob::memory(const Batch& batch) const { return m_state->batches ? m_state->batches->memory(batch) : nullptr; }

void GroupJob::stop() {
  m_state->note_requested();
  if (m_state->batches) m_state->batches->stop();  // first: what this job has not made becomes others' work
  if (m_state->loader != nullptr) m_state->loader->stop();
}

std::string GroupJob::failure() const {
  if (m_state->loader_failed()) return m_state->loader->failure();
  return m_state->batches ? m_state->batches->failure() : "the job has not entered its group";
}

bool GroupJob::out_of_memory() const { return m_state->member.out_of_memory() || (m_state->loader != nullptr && m_state->loader->out_of_memory()); }

const Loader* GroupJob::loader() const { return m_state->loader.get(); }
std::optional<Bytes> GroupJob::storage_bytes() const { return m_state->pipeline ? m_state->pipeline->storage_bytes()() : std::optional<Bytes>(0); }
Bytes GroupJob::requested_bytes() const { return m_state->pipeline ? m_state->pipeline->engine().requested() : 0; }

}  // namespace dsanalyze
