#include "core/records/fields/training_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

template Json record_json(const TrainingRecord& training);
template TrainingRecord read_record(JsonObject object);

}  // namespace dsanalyze
