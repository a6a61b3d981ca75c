#include "group_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "load_plan.hpp"

namespace dsanalyze {
namespace {

GroupTerms server_terms(const GroupServer::Spec& spec) {
  GroupTerms terms = group_terms(spec.inputs, make_load_plan(spec.inputs, spec.pipeline), spec.epochs);
  if (spec.held == 0) return terms;
  const std::uint32_t most_held = std::min(terms.staging.slots(), staging_most_held);
  if (spec.held > most_held) {
    throw UsageError(fmt::format("a job of this group may hold at most {} batches at once, not {}: what is staged is bounded; pass --held {}{}",
                                 most_held, spec.held, most_held, terms.staging.jobs > 1 ? ", or fewer --jobs" : ""));
  }
  terms.staging.held = spec.held;
  terms.staging.validate();
  return terms;
}

}  // namespace

GroupServer::GroupServer(Spec spec, Timing timing, std::function<void(const GroupEvent&)> events)
    : m_spec(std::move(spec)),
      m_events(std::move(events)),
      m_server(Pipeline::make_server(m_spec.inputs, m_spec.pipeline, m_spec.inputs.settings.jobs, timing)),
      m_terms(server_terms(m_spec)),
      m_host({m_terms, m_spec.socket, m_spec.inputs.index, m_server.get(), timing, [this](const GroupEvent& event) { saw(event); }, {}}) {
  if (m_spec.inputs.settings.producers != Producers::coordinator) return;
  Pipeline::Spec pipeline = m_spec.pipeline;
  pipeline.server = m_server;
  m_pipeline.emplace(m_spec.inputs, pipeline, timing);
}

void GroupServer::start() {
  if (!m_pipeline) return;
  m_stored_before = m_pipeline->storage_bytes()();
  m_loader = m_pipeline->make_loader({.staging = &m_host.producer(), .staging_slots = m_terms.staging.slots()});
}

void GroupServer::look() {
  m_most_shared = std::max(m_most_shared, m_host.state().shared_bytes);
  if (m_loader != nullptr && !m_loader->failure().empty()) throw Error(m_loader->failure());
}

void GroupServer::stop() {
  if (m_loader != nullptr) m_loader->stop();
}

std::optional<GroupServer::Prepared> GroupServer::prepared() const {
  if (m_loader == nullptr) return std::nullopt;
  const LoaderTotals totals = m_loader->totals();
  const auto stored = m_pipeline->storage_bytes()();
  return Prepared{totals.prep.samples,
                  totals.hits,
                  totals.misses,
                  m_pipeline->engine().requested(),
                  stored && m_stored_before ? std::optional<Bytes>(*stored - *m_stored_before) : std::nullopt,
                  m_loader->epochs()};
}

void GroupServer::saw(const GroupEvent& event) {
  if (event.kind == GroupEvent::Kind::late) m_late.fetch_add(1);
  if (event.kind == GroupEvent::Kind::refused) m_refused.fetch_add(1);
  if (event.kind == GroupEvent::Kind::died || event.kind == GroupEvent::Kind::garbage) m_departures.fetch_add(1);
  if (m_events) m_events(event);
}

}  // namespace dsanalyze
