#include "live_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

using Json = nlohmann::ordered_json;

constexpr double most_times = 4;       // cores, accelerators: of those measured
constexpr double most_values = 512;    // of one slider
constexpr double steps_a_decade = 40;  // of factors
constexpr int percents = 100;

/// Factors that a person would type: two digits each, about 6 % apart; 1 is one of them.
std::vector<double> factors(double low, double high) {
  std::vector<double> values;
  for (int step = -static_cast<int>(steps_a_decade); step <= steps_a_decade; ++step) {
    const double exact = std::pow(10, step / steps_a_decade);
    const double hundredths = exact < 1 ? 100 : 10;
    const double value = std::round(exact * hundredths) / hundredths;
    if (value >= low && value <= high && (values.empty() || value > values.back())) values.push_back(value);
  }
  return values;
}

/// 1, 2, 3 ... up to four times `measured`; in larger steps where that would be too many.
std::vector<double> whole_numbers(double measured) {
  const double most = std::max(most_times, std::ceil(most_times * measured));
  const double step = std::ceil(most / most_values);
  std::vector<double> values;
  if (step > 1) values.push_back(1);
  for (int at = 1; at * step <= most; ++at) values.push_back(at * step);
  return values;
}

std::vector<double> shares() {
  std::vector<double> values;
  for (int percent = 0; percent <= percents; ++percent) values.push_back(percent / static_cast<double>(percents));
  return values;
}

std::vector<LiveSlider> sliders_of(const RateModel& model) {
  const std::string no_ingestion =
      "The accelerators' rate G is not known, so nothing can be said about other accelerators: profile with --accelerator to have this slider.";
  LiveSlider cores{"cores", {}, model.cores, ""};
  if (model.cores)
    cores.values = whole_numbers(*model.cores);
  else
    cores.why_absent = "The number of cores behind P is not in the profile, so nothing can be said about another number of them.";
  LiveSlider speed{"accelerator_speed", {}, std::nullopt, ""};
  LiveSlider accelerators{"accelerators", {}, std::nullopt, ""};
  if (model.rates.ingestion) {
    speed.values = factors(0.25, 4);
    speed.measured = 1;
  } else {
    speed.why_absent = no_ingestion;
  }
  if (model.rates.ingestion && model.accelerators) {
    accelerators.values = whole_numbers(*model.accelerators);
    accelerators.measured = model.accelerators;
  } else {
    accelerators.why_absent = model.rates.ingestion ? "The number of accelerators behind G is not in the profile." : no_ingestion;
  }
  return {{"cache_fraction", shares(), model.cache_fraction, ""}, cores, speed, accelerators, {"storage_factor", factors(0.1, 10), 1, ""}};
}

/// The numbers of it, and null for those that JSON cannot hold.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
template <typename Number>
Json or_null(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

const char* form_name(MissModel::Form form) {
  switch (form) {
    case MissModel::Form::none:
      return "none";
    case MissModel::Form::minio:
      return "minio";
    case MissModel::Form::cost_aware:
      return "cost_aware";
    case MissModel::Form::lru:
      return "lru";
    case MissModel::Form::random:
      return "random";
    case MissModel::Form::random_in_order:
      return "random_in_order";
    case MissModel::Form::replayed:
      break;
  }
  return "table";
}

Json cache_json(const LiveModel& live) {
  const MissModel& misses = live.model.misses;
  const MissModel::Form form = misses.form();
  Json object = {{"name", whatif::cache_name(misses.facts())},
                 {"form", form_name(form)},
                 {"fraction", live.model.cache_fraction},
                 {"without", live.model.without_cache}};
  if (form == MissModel::Form::cost_aware) {
    object["sizes_bytes"] = misses.sizes();
    object["seconds_per_request"] = misses.facts().cost.seconds_per_request;
    object["seconds_per_byte"] = misses.facts().cost.seconds_per_byte;
  }
  if (form == MissModel::Form::replayed) {
    object["storage_shares"] = live.storage_shares;
    object["measured_storage_share"] = live.measured_storage_share;
  }
  return object;
}

Json fit_json(const FittedScaling& fit) {
  const ScalingLaw& law = fit.law();
  Json object = {{"one_core", law.one_core},         {"contention", law.contention},
                 {"coherence", law.coherence},       {"physical_cores", number(law.physical_cores)},
                 {"thread_share", law.thread_share}, {"host_threads", number(law.host_threads)},
                 {"corrections", Json::array()}};
  for (const auto& [cores, factor] : fit.corrections()) object["corrections"].push_back({{"cores", cores}, {"factor", factor}});
  return object;
}

Json scaling_json(const RateModel& model) {
  Json object = {{"fit", fit_json(model.scaling)}, {"moved_by_errors", Json::array()}, {"measured_cores_high", or_null(model.measured_cores_high)}};
  for (const auto& [lower, higher] : model.scaling.moved_by_errors())
    object["moved_by_errors"].push_back({{"lower", fit_json(lower)}, {"higher", fit_json(higher)}});
  return object;
}

}  // namespace

LiveModel live_model(RateModel model, std::string command) {
  LiveModel live;
  live.model = std::move(model);
  live.command = std::move(command);
  live.sliders = sliders_of(live.model);
  if (live.model.misses.form() != MissModel::Form::replayed) return live;
  for (const double fraction : live.sliders.front().values) live.storage_shares.push_back(live.model.misses.storage_share(fraction));
  live.measured_storage_share = live.model.misses.storage_share(live.model.cache_fraction);
  return live;
}

std::string to_json(const LiveModel& live) {
  const RateModel& model = live.model;
  // What the GPU prepares is not copied. The page's answers keep the split as it was measured.
  std::optional<double> transfer;
  if (model.transfer && model.gpu_share < 1) transfer = transfer_supply(*model.transfer, model.gpu_share);
  Json object = {
      {"command", live.command},
      {"G", or_null(model.rates.ingestion)},
      {"P", model.rates.prep},
      {"H", or_null(transfer)},
      {"C", number(model.rates.cache)},
      {"S", model.rates.storage},
      {"relative_errors",
       {{"G", model.ingestion_error}, {"H", model.transfer_error}, {"P", model.prep_error}, {"C", model.cache_error}, {"S", model.storage_error}}},
      {"cache", cache_json(live)},
      {"cores", or_null(model.cores)},
      {"accelerators", or_null(model.accelerators)},
      {"prep_scaling", scaling_json(model)},
      {"dataset", {{"bytes", or_null(model.dataset_bytes)}, {"samples", or_null(model.dataset_samples)}}},
      {"storage_bytes_per_s", or_null(model.storage_bytes_per_s)},
      {"emulated", model.emulated},
      {"enough_workers", model.enough_workers},
      {"attained", model.attained ? Json(model.attained->samples_per_s) : Json(nullptr)},
      {"interference", model.interference},
      {"sliders", Json::array()}};
  for (const LiveSlider& slider : live.sliders)
    object["sliders"].push_back(
        {{"name", slider.name}, {"values", slider.values}, {"measured", or_null(slider.measured)}, {"why_absent", slider.why_absent}});
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dsanalyze
