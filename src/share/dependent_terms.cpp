#include "dependent_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "load_plan.hpp"

namespace dsanalyze {
namespace {

constexpr int most_batch_size = 1 << 20;

/// What a job asks for that comes again is what it had.
void require_same_job(const GroupDemands& demands, const DependentPosition& position, std::uint32_t samples) {
  const auto differ = [&](std::string_view what, const std::string& had, const std::string& asks) {
    throw UsageError(
        fmt::format("the job \"{}\" goes on in mid-epoch: {} was {}, and it asks for {}; come again with the same, or under another name",
                    printable(*demands.name), what, printable(had), printable(asks)));
  };
  if (demands.batch_size && *demands.batch_size != position.batch_size)
    differ("its batch size", std::to_string(position.batch_size), std::to_string(*demands.batch_size));
  const auto part = [&](const std::string& subset) { return subset.empty() ? std::vector<SampleId>() : parse_subset(subset, samples); };
  const std::string asked = demands.subset.value_or("");
  if (demands.subset ? parse_subset(asked, samples) != part(position.subset) : !position.subset.empty()) {
    const auto words = [](const std::string& subset) { return subset.empty() ? std::string("all") : subset; };
    differ("its part of the dataset", words(position.subset), words(asked));
  }
}

/// To a job that goes on, its epochs count from the first that it ever had.
void go_on(DependentTerms::Job& job, const DependentPosition& position) {
  StagingFacts& staging = job.terms.staging;
  if (staging.epochs != 0 && staging.epochs <= position.epoch)
    throw EpochsOverError(fmt::format("the job has had its epochs: {}, and it asks for {} in all; it may ask for more, or come under another name",
                                      position.epoch, staging.epochs));
  if (staging.epochs != 0) staging.epochs -= position.epoch;
  staging.first_epoch = position.epoch;
  staging.first_batch = position.batch;
  job.job.rest = position.samples;
}

}  // namespace

DependentTerms::DependentTerms(const LoadInputs& inputs, const Pipeline::Spec& spec, const Defaults& defaults)
    : m_inputs(inputs), m_spec(spec), m_asked(defaults) {
  m_inputs.settings.share = JobSharing::coordinated;
  m_inputs.settings.producers = Producers::coordinator;
  m_inputs.settings.jobs = 1;
  m_inputs.settings.job_speeds.clear();
  m_inputs.settings.staging_size.reset();
  m_inputs.settings.staging_policy.reset();
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

DependentTerms::Job DependentTerms::of(const GroupDemands& demands, const DependentPosition* position) const {
  const auto samples = static_cast<std::uint32_t>(m_inputs.index->size());
  if (position != nullptr) require_same_job(demands, *position, samples);
  const std::uint32_t of_group = position != nullptr ? position->batch_size : static_cast<std::uint32_t>(m_inputs.settings.batch_size);
  const auto batch_size = demands.batch_size.value_or(of_group);
  if (batch_size < 1 || batch_size > most_batch_size) {
    throw UsageError(fmt::format("batch size: found {}, expected 1 to {}", batch_size, most_batch_size));
  }
  Job made;
  made.terms = terms_with(batch_size);
  StagingFacts& staging = made.terms.staging;
  if (demands.subset) {
    made.job.subset = parse_subset(*demands.subset, samples);
    made.terms.samples = made.job.subset.size();
    staging.batches_per_epoch = (made.terms.samples + batch_size - 1) / batch_size;
  }
  if (demands.epochs || position != nullptr) staging.epochs = demands.epochs ? *demands.epochs : position->epochs;
  if (position != nullptr) go_on(made, *position);
  staging.validate();
  made.job.batch_size = batch_size;
  made.job.tensor = made.terms.tensor;
  made.job.slots = staging.slots();
  made.job.first = staging.first_epoch * staging.batches_per_epoch + staging.first_batch;
  made.job.batches = staging.epochs == 0 ? 0 : staging.epochs * staging.batches_per_epoch - staging.first_batch;
  return made;
}

}  // namespace dsanalyze
