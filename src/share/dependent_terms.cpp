#include "dependent_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "load_plan.hpp"

namespace dsanalyze {
namespace {

constexpr int most_batch_size = 1 << 20;

struct SampleRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

[[noreturn]] void refuse_item(std::string_view item, std::string_view why) {
  throw UsageError(fmt::format("subset: found \"{}\", {}; expected sample numbers or ranges such as 7, 0-99 or 25%-75%, with commas between",
                               printable(item), why));
}

std::uint32_t percent_of(std::string_view text, std::string_view item, std::uint32_t samples) {
  try {
    return static_cast<std::uint32_t>(std::llround(parse_share(text) * samples));
  } catch (const UsageError&) {
    refuse_item(item, "which is no percentage from 0 to 100");
  }
}

std::uint32_t number_of(std::string_view text, std::string_view item, std::uint32_t samples) {
  try {
    return static_cast<std::uint32_t>(parse_integer(text, 0, std::int64_t{samples} - 1));
  } catch (const UsageError&) {
    refuse_item(item, fmt::format("which is no sample number below {}", samples));
  }
}

SampleRange range_of(std::string_view item, std::uint32_t samples) {
  const std::size_t dash = item.find('-');
  const std::string_view first = item.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? std::string_view() : item.substr(dash + 1);
  SampleRange range;
  if (first.ends_with('%')) {
    const std::uint32_t one = percent_of(first, item, samples);
    if (dash == std::string_view::npos) return {0, one};
    if (!last.ends_with('%')) refuse_item(item, "which is in percent at one end alone");
    range = {one, percent_of(last, item, samples)};
  } else {
    range.begin = number_of(first, item, samples);
    range.end = (dash == std::string_view::npos ? range.begin : number_of(last, item, samples)) + 1;
  }
  if (range.end < range.begin) refuse_item(item, "whose end comes before its begin");
  return range;
}

}  // namespace

std::vector<SampleId> parse_subset(std::string_view text, std::uint32_t samples) {
  std::vector<bool> chosen(samples);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const SampleRange range = range_of(text.substr(at, end - at), samples);
    std::fill(chosen.begin() + range.begin, chosen.begin() + range.end, true);
    at = end + 1;
  }
  std::vector<SampleId> subset;
  for (SampleId sample = 0; sample < samples; ++sample)
    if (chosen[sample]) subset.push_back(sample);
  if (subset.empty()) throw UsageError(fmt::format("subset: \"{}\" is no sample of the {} that there are", printable(text), samples));
  return subset;
}

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
