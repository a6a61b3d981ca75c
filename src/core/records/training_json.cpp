#include "result_json.hpp"
#include "training_fields.hpp"

namespace dsanalyze {

template Json record_json(const TrainingRecord& training);
template TrainingRecord read_record(JsonObject object);

}  // namespace dsanalyze
