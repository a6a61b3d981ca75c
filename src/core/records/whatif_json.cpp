#include "core/records/fields/whatif_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {
namespace {

/// What an answer about a job mix has when it was predicted.
constexpr std::tuple prediction_fields{field("method", &WhatIfJobMix::Answer::method).one_of(Fields<WhatIfJobMix::Answer>::methods),
                                       field("scale", &WhatIfJobMix::Answer::scale).in(1, most_number),
                                       field("prepared_per_sample", &WhatIfJobMix::Answer::prepared_per_sample),
                                       field("prepared_per_fastest", &WhatIfJobMix::Answer::prepared_per_fastest),
                                       field("from_store_fraction", &WhatIfJobMix::Answer::from_store_fraction).in(0, 1),
                                       field("mean_completion_seconds", &WhatIfJobMix::Answer::mean_completion_seconds),
                                       field("makespan_seconds", &WhatIfJobMix::Answer::makespan_seconds),
                                       field("jobs", &WhatIfJobMix::Answer::jobs)};

}  // namespace

void Fields<WhatIfJobMix::Answer>::write_prediction(Json& object, const WhatIfJobMix::Answer& answer) {
  if (answer.not_predicted.empty()) write_parts(prediction_fields, object, answer);
}

void Fields<WhatIfJobMix::Answer>::read_prediction(JsonObject& object, WhatIfJobMix::Answer& answer) {
  if (answer.not_predicted.empty()) read_parts(prediction_fields, object, answer);
}

void Fields<WhatIfAnswer>::write_stalls(Json& object, const WhatIfAnswer& answer) {
  object["stalls"] = answer.ingestion ? record_json(answer.stalls) : Json(nullptr);
}

void Fields<WhatIfAnswer>::read_stalls(JsonObject& object, WhatIfAnswer& answer) {
  if (answer.ingestion) answer.stalls = read_record<StallShares>(object.object("stalls"));
}

void Fields<WhatIfResult>::write_attained(Json& object, const WhatIfResult& result) {
  if (!result.attained) return;
  object["attained"] = record_json(*result.attained);
  object["attained"]["interference_fraction"] = result.interference;
}

void Fields<WhatIfResult>::read_attained(JsonObject& object, WhatIfResult& result) {
  auto attained = object.optional_object("attained");
  if (!attained) return;
  result.interference = attained->optional_number("interference_fraction", 0, 1).value_or(0);
  result.attained = read_record<ProfileResult::Attained>(*attained);
}

std::string to_json(const WhatIfResult& result) { return document_text(record_json(result)); }

WhatIfResult whatif_from_json(std::string_view text, const std::string& source) {
  return record_from_json<WhatIfResult>(text, source, UnknownKeys::ignored);
}

template struct RecordJson<SearchResult>;

}  // namespace dsanalyze
