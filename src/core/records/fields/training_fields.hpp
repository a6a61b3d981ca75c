#pragma once

#include <array>

#include "core/records/settings.hpp"
#include "core/records/training_record.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<TrainingRecord::StepLoss> {
  using R = TrainingRecord::StepLoss;
  static constexpr std::tuple list{field("step", &R::step), field("loss", &R::loss)};
};

template <>
struct Fields<TrainingRecord::EpochLoss> {
  using R = TrainingRecord::EpochLoss;
  static constexpr std::tuple list{field("epoch", &R::epoch), field("samples", &R::samples), field("loss", &R::loss)};
};

template <>
struct Fields<TrainingRecord> {
  using R = TrainingRecord;
  static constexpr std::int64_t most = std::numeric_limits<int>::max();
  static constexpr std::tuple list{field("precision", &R::precision).one_of(enum_names<Precision>),
                                   field("inputs", &R::inputs).in(0, most),
                                   field("hidden", &R::hidden).in(0, most),
                                   field("classes", &R::classes).in(0, most),
                                   field("parameters", &R::parameters),
                                   field("learning_rate", &R::learning_rate),
                                   field("momentum", &R::momentum).in(0, 1),
                                   field("steps", &R::steps),
                                   field("loss_by_step", &R::by_step),
                                   field("loss_by_epoch", &R::by_epoch)};
};

}  // namespace dsanalyze
