#pragma once

#include "core/records/resume_result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<ResumeSettings> {
  using R = ResumeSettings;
  static constexpr std::tuple list{field("epochs", &R::epochs), field("runs", &R::runs), field("stops", &R::stops), field("workers", &R::workers),
                                   field("seed", &R::seed)};
};

template <>
struct Fields<ResumeResult::Fault> {
  using R = ResumeResult::Fault;
  static constexpr std::tuple list{field("what", &R::what), field("sample", &R::sample), field("epoch", &R::epoch), field("run", &R::run),
                                   field("stops", &R::stops)};
};

template <>
struct Fields<ResumeResult> {
  using R = ResumeResult;
  static Json proved(const R& record) { return record.proved(); }
  static constexpr std::tuple list{SchemaField{"dsanalyze.resume/1", "dsanalyze verify-resume"},
                                   field("tool", &R::tool),
                                   field("command", &R::command),
                                   field("settings", &R::settings),
                                   field("loader", &R::loader),
                                   field("dataset_class", &R::dataset_class).or_null(),
                                   field("by", &R::by),
                                   field("workers", &R::workers),
                                   field("workers_refused", &R::workers_refused).or_null(),
                                   field("runs", &R::runs),
                                   field("stops", &R::stops),
                                   field("samples", &R::samples),
                                   field("lost", &R::lost),
                                   field("repeated", &R::repeated),
                                   field("same_order", &R::same_order),
                                   derived("proved", &proved),
                                   field("fault", &R::fault)};
};

}  // namespace dsanalyze
