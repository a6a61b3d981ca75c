#pragma once

#include <cstdint>

#include "core/dependent/sample_subset.hpp"
#include "dependent_feed.hpp"
#include "dependent_state.hpp"
#include "group.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze {

/// What each job of a dependent group is told: to it the group is one of a single job, whose batches a coordinator makes.
class DependentTerms {
 public:
  struct Defaults {
    std::uint64_t epochs = 0;  ///< of a job that does not say; 0: until it leaves
    std::uint32_t held = 2;    ///< batches that a job may hold at once
  };
  /// `inputs`: of the dataset, with the default batch size. Throws UsageError for what does not fit together.
  DependentTerms(const LoadInputs& inputs, const Pipeline::Spec& spec, const Defaults& defaults);

  struct Job {
    GroupTerms terms;
    DependentJob job;
  };
  /// Of a job with these demands, that goes on at `position` or begins. Throws UsageError that names what cannot be, and EpochsOverError.
  [[nodiscard]] Job of(const GroupDemands& demands, const DependentPosition* position = nullptr) const;
  /// Of a job without demands.
  [[nodiscard]] const GroupTerms& defaults() const { return m_defaults.terms; }

 private:
  [[nodiscard]] GroupTerms terms_with(std::uint32_t batch_size) const;

  LoadInputs m_inputs;
  Pipeline::Spec m_spec;
  Defaults m_asked;
  Job m_defaults;
};

}  // namespace dsanalyze
