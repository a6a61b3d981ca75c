#pragma once

#include "core/records/gate_result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<GateSide> {
  using R = GateSide;
  static constexpr std::tuple list{field("sources", &R::sources), field("runs", &R::runs), field("sessions", &R::sessions), field("tools", &R::tools),
                                   field("calibration_passes_per_s", &R::calibration)};
};

template <>
struct Fields<GateMetric> {
  using R = GateMetric;
  static void write_interval(Json& object, const R& record) { object["interval"] = value_json(record.interval); }
  static void read_interval(JsonObject& object, R& record);
  static constexpr std::tuple list{field("name", &R::name),
                                   field("scale", &R::scale),
                                   field("baseline", &R::baseline).any_sign(),
                                   field("current", &R::current).any_sign(),
                                   group("observations", field("baseline", &R::observations_baseline), field("current", &R::observations_current)),
                                   field("effect", &R::effect).any_sign(),
                                   custom(&write_interval, &read_interval),
                                   field("verdict", &R::verdict),
                                   field("reason", &R::reason),
                                   field("more", &R::more)};
};

template <>
struct Fields<GateDifference> {
  using R = GateDifference;
  static constexpr std::tuple list{field("field", &R::field), field("baseline", &R::baseline), field("current", &R::current)};
};

template <>
struct Fields<GateAbsence> {
  using R = GateAbsence;
  static constexpr std::tuple list{field("metric", &R::metric), field("reason", &R::reason)};
};

template <>
struct Fields<GateResult> {
  using R = GateResult;
  static constexpr std::array modes = {"files", "commands"};
  static Json exit_code(const R& record) { return gate_exit_code(record.verdict); }
  static constexpr std::tuple list{SchemaField{"dsanalyze.gate/1", "dsanalyze gate"},
                                   field("tool", &R::tool),
                                   field("mode", &R::mode).one_of(modes),
                                   field("verdict", &R::verdict),
                                   field("reason", &R::reason),
                                   derived("exit_code", &exit_code),
                                   field("min_effect", &R::min_effect).in(0, 1),
                                   field("confidence", &R::confidence).in(0, 1),
                                   field("unit", &R::unit),
                                   field("baseline", &R::baseline),
                                   field("current", &R::current),
                                   field("ignored", &R::ignored),
                                   field("normalized", &R::normalized),
                                   field("metrics", &R::metrics),
                                   field("absent", &R::absent),
                                   field("seconds", &R::seconds),
                                   field("findings", &R::findings)};
};

}  // namespace dsanalyze
