#include "result_json.hpp"
#include "search_result.hpp"

namespace dsanalyze {
namespace {

std::optional<Reach> read_reach(JsonObject& object) {
  if (!is_known(object, "reach")) return std::nullopt;
  const std::string name = object.choice("reach", {"surely", "conditionally", "maybe", "no"});
  for (const Reach reach : {Reach::surely, Reach::conditionally, Reach::maybe})
    if (reach_name(reach) == name) return reach;
  return Reach::no;
}

SearchSetup read_setup(JsonObject object) {
  SearchSetup setup;
  setup.servers = read_small(object, "servers");
  setup.partition = parse_partition_mode(object.choice("partition", {"none", "partitioned", "locality"}));
  setup.cores = object.number("cores", 0, most_number);
  setup.accelerator = object.text("accelerator");
  setup.accelerators = read_small(object, "accelerators");
  setup.cache_fraction = object.number("cache_fraction", 0, most_number);
  setup.cache_bytes = static_cast<Bytes>(object.integer("cache_bytes", 0, most_integer));
  setup.storage = object.text("storage");
  setup.storage_bytes_per_s = object.number("storage_bytes_per_s", 0, most_number);
  return setup;
}

SearchPoint::Costs read_costs(JsonObject object) {
  return {object.number("server", 0, most_number),       object.number("cores", 0, most_number),   object.number("memory", 0, most_number),
          object.number("accelerators", 0, most_number), object.number("storage", 0, most_number), object.number("network", 0, most_number)};
}

SearchPoint read_point(JsonObject object) {
  SearchPoint point;
  point.setup = read_setup(object.object("setup"));
  point.ingestion = object.number("G", 0, most_number);
  point.prep = object.number("P", 0, most_number);
  point.cache = object.number("C", 0, most_number);
  point.storage = object.number("S", 0, most_number);
  point.fetch = object.number("F", 0, most_number);
  point.samples_per_s = object.number("samples_per_s", 0, most_number);
  point.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", -most_number, most_number);
  point.epoch_seconds = object.number("epoch_seconds", 0, most_number);
  point.first_epoch_seconds = object.number("first_epoch_seconds", 0, most_number);
  point.bottleneck = read_resource(object, "bottleneck");
  point.next = read_resource(object, "next");
  point.next_samples_per_s = object.number("next_samples_per_s", 0, most_number);
  point.too_close = object.boolean("too_close");
  point.costs_per_hour = read_costs(object.object("costs_per_hour"));
  point.cost_per_hour = object.number("cost_per_hour", 0, most_number);
  point.cost_per_epoch = object.number("cost_per_epoch", 0, most_number);
  point.reach = read_reach(object);
  if (object.has("assumptions")) point.assumptions = read_texts(object, "assumptions");
  point.extrapolation = object.optional_number("extrapolation", 0, most_number).value_or(1);
  if (auto simulated = object.optional_object("simulated"))
    point.simulated = {simulated->number("samples_per_s", 0, most_number), simulated->number("epoch_seconds", 0, most_number),
                       simulated->number("cost_per_epoch", 0, most_number)};
  point.close_to_cheaper = object.boolean("close_to_cheaper");
  return point;
}

std::optional<SearchPoint> read_optional_point(JsonObject& object, std::string_view key) {
  auto point = object.optional_object(key);
  return point ? std::optional(read_point(*point)) : std::nullopt;
}

}  // namespace

SearchResult search_from_json(JsonObject object) {
  SearchResult result;
  JsonObject prices = object.object("prices");
  result.prices = prices.text("name");
  result.prices_path = prices.text("path");
  result.prices_date = prices.text("date");
  if (is_known(prices, "age_days")) result.prices_age_days = static_cast<int>(prices.integer("age_days", -1'000'000, 10'000'000));
  result.currency = prices.text("currency");
  result.setups = static_cast<std::uint64_t>(object.integer("setups", 0, most_integer));
  result.simulated = static_cast<std::uint64_t>(object.integer("simulated", 0, most_integer));
  if (auto target = object.optional_object("target"))
    result.target = {target->text("text"), target->number("samples_per_s", 0, most_number), target->number("epoch_seconds", 0, most_number)};
  result.reach = read_reach(object);
  result.cheapest = read_optional_point(object, "cheapest");
  result.cheapest_hour = read_optional_point(object, "cheapest_hour");
  result.cheaper_maybe = read_optional_point(object, "cheaper_maybe");
  result.fastest = read_point(object.object("fastest"));
  for (JsonObject& point : object.objects("front")) result.front.push_back(read_point(point));
  result.conclusions = read_texts(object, "conclusions");
  result.findings = read_findings(object);
  return result;
}

}  // namespace dsanalyze
