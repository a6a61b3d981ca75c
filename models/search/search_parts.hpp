#pragma once

#include <string>
#include <vector>

#include "search.hpp"

namespace dsanalyze::search {

/// What the search needs of a model; throws UsageError that says what to give.
struct Base {
  double ingestion = 0;
  double cores = 0;
  double accelerators = 0;
  double dataset_bytes = 0;
  double dataset_samples = 0;
  std::string measured_kind;  ///< of the list: the accelerator behind G
  double measured_speed = 1;  ///< its relative speed
  bool kind_assumed = false;  ///< no one said which it is
  [[nodiscard]] double sample_bytes() const { return dataset_bytes / dataset_samples; }
};
Base required_base(const RateModel& model, const SearchQuestion& question, std::vector<Finding>& findings);

/// The target as a rate and as an epoch's time; nullopt without one.
std::optional<SearchTarget> target_of(const SearchQuestion& question, const Base& base);

/// Every configuration of the space, predicted and priced; at most question.most_setups.
std::vector<SearchPoint> evaluated_space(const RateModel& model, const SearchQuestion& question, const Base& base,
                                         const std::optional<SearchTarget>& target, const SearchHooks& hooks);

/// What must hold beside the measured rates for the prediction to hold, clauses. Nothing where every number behind it was measured.
std::vector<std::string> assumptions_of(const SearchSetup& setup, const RateModel& model, const PriceList& prices, const Base& base);
/// By which factor the servers, or the cores or the accelerators of one, go beyond those measured. Storage is the list's, an assumption by itself.
double extrapolation_of(const SearchSetup& setup, const RateModel& model, const PriceList& prices, const Base& base);

/// What a configuration costs in an hour: its server, cores, memory for the system and the cache, accelerators, storage that holds the dataset,
/// network.
SearchPoint::Costs costs_per_hour(const SearchSetup& setup, const PriceList& prices, double dataset_bytes);

/// How sure it is that a configuration reaches the target, the surest first. A simulated rate counts for more than the closed form's.
enum class Grade {
  whole,          ///< the whole interval reaches it, and nothing is extrapolated far
  predicted,      ///< the predicted rate does, but not the whole interval
  predicted_far,  ///< the predicted rate does, and goes far beyond what was measured
  interval_end,   ///< only the interval's upper end does
  none
};
Grade grade_of(const SearchPoint& point, double target);

/// The total order among configurations that reach the same: cheaper per epoch, faster, cheaper per hour, fewer parts, names.
bool cheaper(const SearchPoint& left, const SearchPoint& right);

/// Why a configuration of a grade below `whole` is not sure to reach the target, a clause.
std::string why_not_sure(const SearchPoint& point, double target);
/// The sentences that a person reads first.
std::vector<std::string> conclusions(const SearchResult& result);

}  // namespace dsanalyze::search
