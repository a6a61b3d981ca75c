#include "load_plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "core/depths.hpp"
#include "loaders/slot_pool.hpp"

namespace dsanalyze {
namespace {

using PlanJson = nlohmann::ordered_json;

constexpr auto plan_engines = names_of_values<IoEngine::pread, IoEngine::uring>;

std::string values_text(const LoadInputs& inputs) {
  if (inputs.settings.dtype == DType::uint8) return "uint8";
  return fmt::format("float32 less {} over {}", fmt::join(inputs.image_prep.mean, "/"), fmt::join(inputs.image_prep.deviation, "/"));
}

const char* layout_text(const ProfileSettings& settings) { return settings.layout == Layout::nchw ? ", NCHW" : ", NHWC"; }

}  // namespace

LoadPlan make_load_plan(const LoadInputs& inputs, const Pipeline::Spec& spec) {
  LoadPlan plan;
  plan.settings = inputs.settings;
  plan.image_prep = inputs.image_prep;
  plan.way = spec.way;
  plan.page_cache = spec.page_cache;
  plan.storage_cost = spec.storage_cost;
  plan.workers = workers_of_each(inputs.settings);
  return plan;
}

std::string to_json(const LoadPlan& plan) {
  const PlanJson document{{"settings", PlanJson::parse(to_json(plan.settings))},
                          {"prep", PlanJson::parse(to_json(plan.image_prep))},
                          {"io", enum_name(plan.way.engine == IoEngine::uring ? IoEngine::uring : IoEngine::pread)},
                          {"reads", enum_name(plan.way.mode)},
                          {"page_cache", enum_name(plan.page_cache)},
                          {"storage_seconds_per_request", plan.storage_cost.seconds_per_request},
                          {"storage_seconds_per_byte", plan.storage_cost.seconds_per_byte},
                          {"workers", plan.workers}};
  return document.dump(-1, ' ', false, PlanJson::error_handler_t::replace);
}

LoadPlan load_plan_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  LoadPlan plan;
  plan.settings = settings_from_json(root.raw("settings").dump(), source + ": settings");
  plan.image_prep = image_prep_from_json(root.raw("prep").dump(), source + ": prep");
  plan.way.engine = *enum_named<IoEngine>(root.choice("io", {plan_engines.begin(), plan_engines.end()}));
  plan.way.mode = root.named<ReadMode>("reads");
  plan.page_cache = root.named<PageCacheUse>("page_cache");
  plan.storage_cost.seconds_per_request = root.number("storage_seconds_per_request", 0, 1e9);
  plan.storage_cost.seconds_per_byte = root.number("storage_seconds_per_byte", 0, 1e9);
  plan.workers = static_cast<int>(root.integer("workers", 1, 4096));
  root.finish();
  plan.settings.validate();
  return plan;
}

std::string prep_text(const LoadInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  if (settings.prep == Seam::null) return "none";
  if (settings.prep == Seam::emulated) return fmt::format("emulated, {} samples/s a core", settings.prep_rate_per_core);
  if (inputs.index->facts().array) return "arrays as they are";
  if (inputs.form == SampleForm::encoded) return "files as they are";
  if (inputs.form == SampleForm::decoded) return "images decoded in their own sizes, uint8, HWC";
  const ImagePrep& prep = inputs.image_prep;
  if (inputs.crop == CropRule::centre)
    return fmt::format("image {0} x {0}, the middle of {1}, {2}{3}", prep.crop_size, inputs.resize == 0 ? prep.crop_size : inputs.resize,
                       values_text(inputs), layout_text(settings));
  return fmt::format("image {0} x {0}, crop area {1} to {2}, ratio {3:.4g} to {4:.4g}, flipped {5:.3g}, {6}{7}", prep.crop_size, prep.scale[0],
                     prep.scale[1], prep.ratio[0], prep.ratio[1], prep.flip_probability, values_text(inputs), layout_text(settings));
}

GroupTerms group_terms(const LoadInputs& inputs, const LoadPlan& plan, std::uint64_t epochs) {
  const ProfileSettings& settings = inputs.settings;
  GroupTerms terms;
  terms.samples = inputs.index->size();
  terms.seed = settings.seed;
  terms.dataset_digest = inputs.index->facts().digest;
  terms.prep = prep_text(inputs);
  const auto batch_size = static_cast<std::uint32_t>(settings.batch_size);
  terms.tensor = slot_tensor(inputs, batch_size);
  terms.settings = to_json(plan);
  StagingFacts& staging = terms.staging;
  staging.batches_per_epoch = (terms.samples + batch_size - 1) / batch_size;
  staging.epochs = epochs;
  staging.jobs = static_cast<std::uint32_t>(settings.jobs);
  staging.held = static_cast<std::uint32_t>(settings.accelerators);
  staging.prefetch = static_cast<std::uint32_t>(prefetch_batches(settings));
  staging.batch_size = batch_size;
  staging.slot_bytes = SlotLayout(terms.tensor).bytes;
  staging.producers = settings.producers;
  staging.boundary = settings.trials > 0 ? StagingBoundary::synchronised : StagingBoundary::overlapped;
  staging.validate();
  return terms;
}

}  // namespace dsanalyze
