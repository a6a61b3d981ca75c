#include <limits>

#include "result_json.hpp"
#include "whatif_result.hpp"

namespace dsanalyze {
namespace {

std::optional<double> read_known(JsonObject& object, std::string_view key) { return object.optional_number(key, 0, most_number); }

std::optional<std::uint32_t> read_known_machines(JsonObject& object, std::string_view key) {
  const auto count = object.optional_integer(key, 1, std::numeric_limits<std::uint32_t>::max());
  return count ? std::optional(static_cast<std::uint32_t>(*count)) : std::nullopt;
}

WhatIfChange read_change(JsonObject object) {
  WhatIfChange change;
  change.cache_fraction = read_known(object, "cache_fraction");
  if (is_known(object, "cache_bytes")) change.cache_bytes = read_count(object, "cache_bytes");
  change.cache = object.optional_text("cache").value_or("");
  change.cores = read_known(object, "cores");
  change.cores_factor = read_known(object, "cores_factor");
  change.accelerator_speed = read_known(object, "accelerator_speed");
  change.accelerators = read_known(object, "accelerators");
  change.storage_bytes_per_s = read_known(object, "storage_bytes_per_s");
  change.storage_factor = read_known(object, "storage_factor");
  change.request_bytes = object.optional_number("request_bytes", 0, most_record_bytes);
  change.fetch_concurrency = read_known(object, "fetch_concurrency");
  change.batch_size = read_known(object, "batch_size");
  change.jobs = read_known_machines(object, "jobs");
  if (change.jobs) change.share = object.text("share");
  change.servers = read_known_machines(object, "servers");
  if (change.servers) {
    change.partition = object.text("partition");
    change.balance_from = object.optional_text("balance_from").value_or("");
    change.storage_scope = object.text("storage_scope");
  }
  change.network_bytes_per_s = read_known(object, "network_bytes_per_s");
  return change;
}

WhatIfAnswer::Simulated read_simulated(JsonObject object) {
  WhatIfAnswer::Simulated simulated;
  simulated.samples_per_s = object.number("samples_per_s", 0, most_number);
  simulated.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", -most_number, most_number);
  simulated.stall_p50_seconds = object.number("stall_p50_seconds", 0, most_number);
  simulated.stall_p99_seconds = object.number("stall_p99_seconds", 0, most_number);
  simulated.stall_epoch_boundary_seconds = object.number("stall_epoch_boundary_seconds", 0, most_number);
  simulated.first_batch_seconds = object.number("first_batch_seconds", 0, most_number);
  simulated.bottleneck = read_resource(object, "bottleneck");
  simulated.too_close = object.boolean("too_close");
  return simulated;
}

WhatIfAnswer::Measured read_measured(JsonObject object) {
  WhatIfAnswer::Measured measured;
  measured.samples_per_s = object.number("samples_per_s", 0, most_number);
  measured.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", -most_number, most_number);
  measured.speed = object.number("speed", 0, most_number);
  measured.error = object.number("error", -most_number, most_number);
  measured.error_as_profiled = object.number("error_as_profiled", -most_number, most_number);
  measured.closed_form_error = object.number("closed_form_error", -most_number, most_number);
  measured.covered = object.boolean("covered");
  measured.windows = read_count(object, "windows");
  measured.void_windows = read_count(object, "void_windows");
  measured.bottleneck = object.text("bottleneck");
  measured.verdict_right = object.boolean("verdict_right");
  return measured;
}

WhatIfAnswer::Servers read_servers(JsonObject object) {
  return {object.number("samples_per_s_each", 0, most_number), object.text("fetch_detail"),
          object.number("storage_bytes_server_epoch", 0, most_number), object.number("network_bytes_server_epoch", 0, most_number),
          object.number("slowest_excess", 0, most_number)};
}

WhatIfAnswer read_answer(JsonObject& object) {
  WhatIfAnswer answer;
  answer.change = read_change(object.object("change"));
  answer.ingestion = read_known(object, "G");
  answer.prep = object.number("P", 0, most_number);
  answer.fetch = object.number("F", 0, most_number);
  answer.cache = object.number("C", 0, most_number);
  answer.storage = object.number("S", 0, most_number);
  answer.samples_per_s = object.number("samples_per_s", 0, most_number);
  answer.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", -most_number, most_number);
  answer.epoch_seconds = read_known(object, "epoch_seconds").value_or(0);
  answer.bottleneck = read_resource(object, "bottleneck");
  answer.too_close = object.boolean("too_close");
  answer.extrapolation = object.optional_number("extrapolation", 1, most_number).value_or(1);
  if (answer.ingestion) {
    JsonObject stalls = object.object("stalls");
    answer.stalls = {stalls.number("compute", -most_number, most_number), stalls.number("prep", -most_number, most_number),
                     stalls.number("fetch", -most_number, most_number)};
  }
  answer.speedup = object.number("speedup", 0, most_number);
  if (auto simulated = object.optional_object("simulated")) answer.simulated = read_simulated(*simulated);
  if (auto measured = object.optional_object("measured")) answer.measured = read_measured(*measured);
  answer.not_measured = object.optional_text("not_measured").value_or("");
  if (auto jobs = object.optional_object("jobs"))
    answer.jobs = {jobs->number("samples_per_s_each", 0, most_number), jobs->number("reads_over_dataset", 0, most_number),
                   jobs->number("prepared_over_dataset", 0, most_number), jobs->number("prepared_batches", 0, most_number)};
  if (auto servers = object.optional_object("servers")) answer.servers = read_servers(*servers);
  return answer;
}

WhatIfValidation read_validation(JsonObject object) {
  WhatIfValidation validation;
  validation.outcome = object.choice("outcome", {"passed", "failed", "undecided"});
  validation.reason = object.text("reason");
  validation.measured = read_count(object, "measured");
  validation.not_measured = read_count(object, "not_measured");
  validation.median_error = object.number("median_error", 0, most_number);
  validation.worst_error = object.number("worst_error", 0, most_number);
  validation.closed_form_median_error = object.number("closed_form_median_error", 0, most_number);
  validation.closed_form_worst_error = object.number("closed_form_worst_error", 0, most_number);
  validation.covered_share = object.number("covered_share", 0, 1);
  validation.void_share = object.number("void_share", 0, 1);
  validation.worst_error_as_profiled = object.number("worst_error_as_profiled", 0, most_number);
  JsonObject speed = object.object("speed");
  validation.slowest = speed.number("slowest", 0, most_number);
  validation.fastest = speed.number("fastest", 0, most_number);
  validation.verdicts_right = read_count(object, "verdicts_right");
  return validation;
}

void read_source(JsonObject source, WhatIfResult& result) {
  result.source = source.text("from");
  result.model = source.text("model");
  result.rates.ingestion = read_known(source, "G");
  result.rates.prep = source.number("P", 0, most_number);
  result.rates.cache = source.number("C", 0, most_number);
  result.rates.storage = source.number("S", 0, most_number);
  result.network = read_known(source, "N");
  result.base_cache_fraction = source.number("cache_fraction", 0, most_number);
}

}  // namespace

WhatIfResult whatif_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  require_schema(root, "dsanalyze.whatif/1", "dsanalyze whatif");
  WhatIfResult result;
  result.tool = read_tool(root.object("tool"));
  read_source(root.object("source"), result);
  for (JsonObject& answer : root.objects("answers")) result.answers.push_back(read_answer(answer));
  if (result.answers.empty()) root.fail("answers", "found an empty list, expected at least the set-up as measured");
  for (JsonObject& found : root.objects("found"))
    result.found.push_back({found.choice("question", {"cache", "cores", "accelerators", "storage"}), read_known(found, "value"), found.text("unit"),
                            found.text("then")});
  result.advice = read_advice(root);
  if (auto attained = root.optional_object("attained")) {
    result.interference = attained->optional_number("interference_fraction", 0, 1).value_or(0);
    result.attained = read_attained(*attained);
  }
  if (auto search = root.optional_object("search")) result.search = search_from_json(*search);
  if (auto validation = root.optional_object("validation")) result.validation = read_validation(*validation);
  result.findings = read_findings(root);
  return result;
}

}  // namespace dsanalyze
