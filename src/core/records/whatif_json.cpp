#include "result_json.hpp"
#include "whatif_result.hpp"

namespace dsanalyze {
namespace {

Json change_json(const WhatIfChange& change) {
  Json object = Json::object();
  add_if_known(object, "cache_fraction", change.cache_fraction);
  add_if_known(object, "cache_bytes", change.cache_bytes);
  if (!change.cache.empty()) object["cache"] = change.cache;
  add_if_known(object, "cores", change.cores);
  add_if_known(object, "cores_factor", change.cores_factor);
  add_if_known(object, "accelerator_speed", change.accelerator_speed);
  add_if_known(object, "accelerators", change.accelerators);
  add_if_known(object, "storage_bytes_per_s", change.storage_bytes_per_s);
  add_if_known(object, "storage_factor", change.storage_factor);
  add_if_known(object, "request_bytes", change.request_bytes);
  add_if_known(object, "fetch_concurrency", change.fetch_concurrency);
  add_if_known(object, "batch_size", change.batch_size);
  add_if_known(object, "jobs", change.jobs);
  if (change.jobs) object["share"] = change.share;
  add_if_known(object, "servers", change.servers);
  if (change.servers) {
    object["partition"] = change.partition;
    if (!change.balance_from.empty()) object["balance_from"] = change.balance_from;
    object["storage_scope"] = change.storage_scope;
  }
  add_if_known(object, "network_bytes_per_s", change.network_bytes_per_s);
  return object;
}

Json simulated_json(const WhatIfAnswer::Simulated& simulated) {
  return {{"samples_per_s", simulated.samples_per_s},
          {"ci95_samples_per_s", interval_json(simulated.ci95_samples_per_s)},
          {"stall_p50_seconds", simulated.stall_p50_seconds},
          {"stall_p99_seconds", simulated.stall_p99_seconds},
          {"stall_epoch_boundary_seconds", simulated.stall_epoch_boundary_seconds},
          {"first_batch_seconds", simulated.first_batch_seconds},
          {"bottleneck", simulated.bottleneck},
          {"too_close", simulated.too_close}};
}

Json measured_json(const WhatIfAnswer::Measured& measured) {
  return {{"samples_per_s", measured.samples_per_s},
          {"ci95_samples_per_s", interval_json(measured.ci95_samples_per_s)},
          {"speed", measured.speed},
          {"error", measured.error},
          {"error_as_profiled", measured.error_as_profiled},
          {"closed_form_error", measured.closed_form_error},
          {"covered", measured.covered},
          {"windows", measured.windows},
          {"void_windows", measured.void_windows},
          {"bottleneck", measured.bottleneck},
          {"verdict_right", measured.verdict_right}};
}

Json validation_json(const WhatIfValidation& validation) {
  return {{"outcome", validation.outcome},
          {"reason", validation.reason},
          {"measured", validation.measured},
          {"not_measured", validation.not_measured},
          {"median_error", validation.median_error},
          {"worst_error", validation.worst_error},
          {"closed_form_median_error", validation.closed_form_median_error},
          {"closed_form_worst_error", validation.closed_form_worst_error},
          {"covered_share", validation.covered_share},
          {"void_share", validation.void_share},
          {"worst_error_as_profiled", validation.worst_error_as_profiled},
          {"speed", {{"slowest", validation.slowest}, {"fastest", validation.fastest}}},
          {"verdicts_right", validation.verdicts_right}};
}

Json answer_json(const WhatIfAnswer& answer) {
  Json object = {{"change", change_json(answer.change)},
                 {"G", or_null(answer.ingestion)},
                 {"P", answer.prep},
                 {"F", answer.fetch},
                 {"C", answer.cache},
                 {"S", answer.storage},
                 {"samples_per_s", answer.samples_per_s},
                 {"ci95_samples_per_s", interval_json(answer.ci95_samples_per_s)},
                 {"epoch_seconds", answer.epoch_seconds > 0 ? Json(answer.epoch_seconds) : Json(nullptr)},
                 {"bottleneck", answer.bottleneck},
                 {"too_close", answer.too_close},
                 {"extrapolation", answer.extrapolation},
                 {"stalls", nullptr},
                 {"speedup", answer.speedup}};
  if (answer.simulated) object["simulated"] = simulated_json(*answer.simulated);
  if (answer.measured) object["measured"] = measured_json(*answer.measured);
  if (!answer.not_measured.empty()) object["not_measured"] = answer.not_measured;
  if (answer.jobs) {
    object["jobs"] = {{"samples_per_s_each", answer.jobs->samples_per_s_each},
                      {"reads_over_dataset", answer.jobs->reads_over_dataset},
                      {"prepared_over_dataset", answer.jobs->prepared_over_dataset},
                      {"prepared_batches", answer.jobs->prepared_batches}};
  }
  if (answer.servers) {
    object["servers"] = {{"samples_per_s_each", answer.servers->samples_per_s_each},
                         {"fetch_detail", answer.servers->fetch_detail},
                         {"storage_bytes_server_epoch", answer.servers->storage_bytes_server_epoch},
                         {"network_bytes_server_epoch", answer.servers->network_bytes_server_epoch},
                         {"slowest_excess", answer.servers->slowest_excess}};
  }
  if (answer.ingestion) object["stalls"] = {{"compute", answer.stalls.compute}, {"prep", answer.stalls.prep}, {"fetch", answer.stalls.fetch}};
  return object;
}

}  // namespace

std::string to_json(const WhatIfResult& result) {
  Json document = {{"schema", "dsanalyze.whatif/1"},
                   {"tool", tool_json(result.tool)},
                   {"source",
                    {{"from", result.source},
                     {"model", result.model},
                     {"G", or_null(result.rates.ingestion)},
                     {"P", result.rates.prep},
                     {"C", result.rates.cache},
                     {"S", result.rates.storage},
                     {"N", or_null(result.network)},
                     {"cache_fraction", result.base_cache_fraction}}},
                   {"answers", Json::array()},
                   {"found", Json::array()}};
  if (result.attained) {
    document["attained"] = attained_json(*result.attained);
    document["attained"]["interference_fraction"] = result.interference;
  }
  for (const WhatIfAnswer& answer : result.answers) document["answers"].push_back(answer_json(answer));
  for (const WhatIfFound& found : result.found) {
    document["found"].push_back({{"question", found.question}, {"value", or_null(found.value)}, {"unit", found.unit}, {"then", found.then}});
  }
  document["advice"] = advice_json(result.advice);
  if (result.search) document["search"] = search_json(*result.search);
  if (result.validation) document["validation"] = validation_json(*result.validation);
  document["findings"] = findings_json(result.findings);
  return document_text(document);
}

}  // namespace dsanalyze
