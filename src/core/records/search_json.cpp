#include "result_json.hpp"
#include "search_result.hpp"

namespace dsanalyze {
namespace {

Json setup_json(const SearchSetup& setup) {
  return {{"servers", setup.servers},
          {"partition", partition_mode_name(setup.partition)},
          {"cores", setup.cores},
          {"accelerator", setup.accelerator},
          {"accelerators", setup.accelerators},
          {"cache_fraction", setup.cache_fraction},
          {"cache_bytes", setup.cache_bytes},
          {"storage", setup.storage},
          {"storage_bytes_per_s", setup.storage_bytes_per_s}};
}

Json costs_json(const SearchPoint::Costs& costs) {
  return {{"server", costs.server},   {"cores", costs.cores},    {"memory", costs.memory}, {"accelerators", costs.accelerators},
          {"storage", costs.storage}, {"network", costs.network}};
}

Json reach_json(const std::optional<Reach>& reach) { return reach ? Json(reach_name(*reach)) : Json(nullptr); }

Json point_json(const SearchPoint& point) {
  Json object = {{"setup", setup_json(point.setup)},
                 {"G", point.ingestion},
                 {"P", point.prep},
                 {"C", point.cache},
                 {"S", point.storage},
                 {"F", point.fetch},
                 {"samples_per_s", point.samples_per_s},
                 {"ci95_samples_per_s", interval_json(point.ci95_samples_per_s)},
                 {"epoch_seconds", point.epoch_seconds},
                 {"first_epoch_seconds", point.first_epoch_seconds},
                 {"bottleneck", point.bottleneck},
                 {"next", point.next},
                 {"next_samples_per_s", point.next_samples_per_s},
                 {"too_close", point.too_close},
                 {"costs_per_hour", costs_json(point.costs_per_hour)},
                 {"cost_per_hour", point.cost_per_hour},
                 {"cost_per_epoch", point.cost_per_epoch},
                 {"reach", reach_json(point.reach)},
                 {"assumptions", point.assumptions},
                 {"extrapolation", point.extrapolation},
                 {"simulated", nullptr},
                 {"close_to_cheaper", point.close_to_cheaper}};
  if (point.simulated)
    object["simulated"] = {{"samples_per_s", point.simulated->samples_per_s},
                           {"epoch_seconds", point.simulated->epoch_seconds},
                           {"cost_per_epoch", point.simulated->cost_per_epoch}};
  return object;
}

Json optional_point_json(const std::optional<SearchPoint>& point) { return point ? point_json(*point) : Json(nullptr); }

}  // namespace

Json search_json(const SearchResult& result) {
  Json object = {{"prices",
                  {{"name", result.prices},
                   {"path", result.prices_path},
                   {"date", result.prices_date},
                   {"age_days", or_null(result.prices_age_days)},
                   {"currency", result.currency}}},
                 {"setups", result.setups},
                 {"simulated", result.simulated},
                 {"target", nullptr},
                 {"reach", reach_json(result.reach)},
                 {"cheapest", optional_point_json(result.cheapest)},
                 {"cheapest_hour", optional_point_json(result.cheapest_hour)},
                 {"cheaper_maybe", optional_point_json(result.cheaper_maybe)},
                 {"fastest", point_json(result.fastest)},
                 {"front", Json::array()},
                 {"conclusions", result.conclusions},
                 {"findings", findings_json(result.findings)}};
  if (result.target)
    object["target"] = {
        {"text", result.target->text}, {"samples_per_s", result.target->samples_per_s}, {"epoch_seconds", result.target->epoch_seconds}};
  for (const SearchPoint& point : result.front) object["front"].push_back(point_json(point));
  return object;
}

}  // namespace dsanalyze
