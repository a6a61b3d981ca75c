#pragma once

#include <string>
#include <string_view>

#include "group.hpp"
#include "loaders/pipeline.hpp"

namespace dsanalyze {

/// What a member of a group needs to prepare batches as the others do, beside the index and the server: it travels as GroupTerms::settings.
struct LoadPlan {
  ProfileSettings settings;
  ImagePrep image_prep;
  FetchWay way;
  PageCacheUse page_cache = PageCacheUse::drop;
  StorageCost storage_cost;
  int workers = 1;  ///< of one member that prepares
};
/// Of a member of a group whose pipelines are as `spec` says.
LoadPlan make_load_plan(const LoadInputs& inputs, const Pipeline::Spec& spec);
std::string to_json(const LoadPlan& plan);
/// Throws UsageError that names the field.
LoadPlan load_plan_from_json(std::string_view text, const std::string& source);

/// What prep there is, in words that are the same for the same prep: jobs that want another do not fit a group.
std::string prep_text(const LoadInputs& inputs);
/// Terms of a group of `jobs` that shares one pass over the index an epoch, `epochs` times (0: until it is ended). Its batches are of one
/// accelerator. Throws UsageError for what does not fit together.
GroupTerms group_terms(const LoadInputs& inputs, const LoadPlan& plan, std::uint64_t epochs);

}  // namespace dsanalyze
