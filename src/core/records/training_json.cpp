#include "result_json.hpp"

namespace dsanalyze {

Json training_json(const TrainingRecord& training) {
  Json object = {{"precision", training.precision}, {"inputs", training.inputs},         {"hidden", training.hidden},
                 {"classes", training.classes},     {"parameters", training.parameters}, {"learning_rate", training.learning_rate},
                 {"momentum", training.momentum},   {"steps", training.steps},           {"loss_by_step", Json::array()},
                 {"loss_by_epoch", Json::array()}};
  for (const auto& each : training.by_step) object["loss_by_step"].push_back({{"step", each.step}, {"loss", each.loss}});
  for (const auto& each : training.by_epoch)
    object["loss_by_epoch"].push_back({{"epoch", each.epoch}, {"samples", each.samples}, {"loss", each.loss}});
  return object;
}

TrainingRecord read_training(JsonObject object) {
  TrainingRecord training;
  training.precision = object.choice("precision", {"float", "double"});
  training.inputs = static_cast<std::uint32_t>(read_small(object, "inputs"));
  training.hidden = static_cast<std::uint32_t>(read_small(object, "hidden"));
  training.classes = static_cast<std::uint32_t>(read_small(object, "classes"));
  training.parameters = read_count(object, "parameters");
  training.learning_rate = object.number("learning_rate", 0, most_number);
  training.momentum = object.number("momentum", 0, 1);
  training.steps = read_count(object, "steps");
  for (JsonObject& each : object.objects("loss_by_step")) training.by_step.push_back({read_count(each, "step"), each.number("loss", 0, most_number)});
  for (JsonObject& each : object.objects("loss_by_epoch"))
    training.by_epoch.push_back({read_count(each, "epoch"), read_count(each, "samples"), each.number("loss", 0, most_number)});
  return training;
}

}  // namespace dsanalyze
