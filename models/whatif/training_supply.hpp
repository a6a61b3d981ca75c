#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "training_model.hpp"

namespace dsanalyze {

// What storage supplies to the workers of a launched training: a part of its model. Pure.

/// Nothing where the profile lacks a part of it. Throws UsageError that names a point that is none.
std::optional<TrainingModel::Storage> storage_of(const ProfileResult& profile, const RunRecord& full);

/// Why a model with `epoch_unknown` answers nothing about storage and memory, and the way out.
constexpr const char* epoch_unknown_text =
    "what an epoch of this training reads is not known, as its loader has no length and no epoch was seen to end: give the loader a length "
    "(__len__), or profile the command with a longer --time-budget";

/// S by readers, of the storage that is asked about, and the rate that it supplies to any number of them at most.
struct ChangedSupply {
  std::vector<SupplyPoint> curve;
  double most = std::numeric_limits<double>::infinity();
};
ChangedSupply changed_supply(const TrainingModel::Storage& storage, const TrainingChange& change);

}  // namespace dsanalyze
