#include "result_json.hpp"

namespace dsanalyze {
namespace {

Json change_json(const WhatIfChange& change) {
  Json object = Json::object();
  add_if_known(object, "cache_fraction", change.cache_fraction);
  add_if_known(object, "cache_bytes", change.cache_bytes);
  add_if_known(object, "cores", change.cores);
  add_if_known(object, "cores_factor", change.cores_factor);
  add_if_known(object, "accelerator_speed", change.accelerator_speed);
  add_if_known(object, "accelerators", change.accelerators);
  add_if_known(object, "storage_bytes_per_s", change.storage_bytes_per_s);
  add_if_known(object, "storage_factor", change.storage_factor);
  return object;
}

Json answer_json(const WhatIfAnswer& answer) {
  Json object = {{"change", change_json(answer.change)},
                 {"G", or_null(answer.ingestion)},
                 {"P", answer.prep},
                 {"F", answer.fetch},
                 {"samples_per_s", answer.samples_per_s},
                 {"ci95_samples_per_s", interval_json(answer.ci95_samples_per_s)},
                 {"epoch_seconds", answer.epoch_seconds > 0 ? Json(answer.epoch_seconds) : Json(nullptr)},
                 {"bottleneck", answer.bottleneck},
                 {"too_close", answer.too_close},
                 {"stalls", nullptr},
                 {"speedup", answer.speedup}};
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
                     {"cache_fraction", result.base_cache_fraction}}},
                   {"answers", Json::array()},
                   {"found", Json::array()}};
  for (const WhatIfAnswer& answer : result.answers) document["answers"].push_back(answer_json(answer));
  for (const WhatIfFound& found : result.found) {
    document["found"].push_back({{"question", found.question}, {"value", or_null(found.value)}, {"unit", found.unit}, {"then", found.then}});
  }
  document["advice"] = advice_json(result.advice);
  document["findings"] = findings_json(result.findings);
  return document_text(document);
}

}  // namespace dsanalyze
