#include "dependent_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "load_plan.hpp"

namespace dsanalyze {
namespace {

constexpr int most_batch_size = 1 << 20;

}  // namespace

DependentTerms::DependentTerms(const LoadInputs& inputs, const Pipeline::Spec& spec, const Defaults& defaults)
    : m_inputs(inputs), m_spec(spec), m_asked(defaults) {
  m_inputs.settings.share = JobSharing::coordinated;
  m_inputs.settings.producers = Producers::coordinator;
  m_inputs.settings.jobs = 1;
  m_spec.server.reset();
  m_defaults = of({});
}

GroupTerms DependentTerms::terms_with(std::uint32_t batch_size) const {
  LoadInputs inputs = m_inputs;
  inputs.settings.batch_size = static_cast<int>(batch_size);
  GroupTerms terms = group_terms(inputs, make_load_plan(inputs, m_spec), m_asked.epochs);
  const std::uint32_t most_held = std::min(terms.staging.slots(), staging_most_held);
  if (m_asked.held > most_held) {
    throw UsageError(fmt::format("a job of this group may hold at most {0} batches at once, not {1}: what is staged is bounded; pass --held {0}",
                                 most_held, m_asked.held));
  }
  terms.staging.held = m_asked.held;
  return terms;
}

DependentTerms::Job DependentTerms::of(const GroupDemands& demands) const {
  const auto batch_size = demands.batch_size.value_or(static_cast<std::uint32_t>(m_inputs.settings.batch_size));
  if (batch_size < 1 || batch_size > most_batch_size) {
    throw UsageError(fmt::format("batch size: found {}, expected 1 to {}", batch_size, most_batch_size));
  }
  Job made;
  made.terms = terms_with(batch_size);
  StagingFacts& staging = made.terms.staging;
  if (demands.subset) {
    made.job.subset = parse_subset(*demands.subset, static_cast<std::uint32_t>(made.terms.samples));
    made.terms.samples = made.job.subset.size();
    staging.batches_per_epoch = (made.terms.samples + batch_size - 1) / batch_size;
  }
  if (demands.epochs) staging.epochs = *demands.epochs;
  staging.validate();
  made.job.batch_size = batch_size;
  made.job.tensor = made.terms.tensor;
  made.job.slots = staging.slots();
  made.job.batches = staging.epochs * staging.batches_per_epoch;
  return made;
}

}  // namespace dsanalyze
