#include "group_run.hpp"

#include <utility>

#include "group_server.hpp"

namespace dsanalyze {
namespace {

GroupServer::Spec server_spec(GroupRun::Spec spec) {
  Pipeline::Spec pipeline = share_pipeline(spec.inputs, spec.way, spec.cache_bytes);
  return {std::move(spec.inputs), std::move(pipeline), spec.epochs, spec.held, std::move(spec.socket)};
}

}  // namespace

GroupRun::GroupRun(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events)
    : m_server(std::make_unique<GroupServer>(server_spec(std::move(spec)), timing, std::move(events))) {
  m_server->start();
}
GroupRun::~GroupRun() = default;

std::string GroupRun::address() const { return m_server->host().address(); }
const GroupTerms& GroupRun::terms() const { return m_server->terms(); }
GroupHost::State GroupRun::state() const { return m_server->host().state(); }
std::vector<GroupJobAccount> GroupRun::jobs() const { return m_server->host().accounts(); }
void GroupRun::begin() { m_server->host().begin(); }

bool GroupRun::wait_over(Deadline deadline) {
  const bool over = m_server->host().wait_over(deadline);
  m_server->look();
  return over;
}

ShareResult GroupRun::finish() {
  m_server->stop();
  const GroupServer::Spec& spec = m_server->spec();
  const GroupTerms& terms = m_server->terms();
  const GroupHost& host = m_server->host();
  const ProfileSettings& settings = spec.inputs.settings;
  const StagingFacts& staging = terms.staging;
  ShareResult result = share_result_of(*spec.inputs.index, settings.dataset, terms, host.accounts());
  result.terms.producers = producers_name(settings.producers);
  result.terms.cache = cache_kind_name(settings.cache);
  result.terms.cache_bytes = holds_samples(settings.cache) ? spec.pipeline.cache_bytes : 0;
  result.epochs = host.state().opened_epochs;
  if (const auto prepared = m_server->prepared()) {
    result.samples_prepared += prepared->samples;
    result.requested_bytes += prepared->requested_bytes;
  }
  result.late_reports = m_server->counts().late;
  result.refused = m_server->counts().refused;
  result.memory = {staging.prefetch,
                   staging.window(),
                   staging.slot_bytes,
                   staging.constant_bytes(),
                   staging.staged_bytes() + staging.constant_bytes(),
                   m_server->most_shared_bytes()};
  return result;
}

}  // namespace dsanalyze
