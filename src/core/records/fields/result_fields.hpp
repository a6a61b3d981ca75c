#pragma once

#include "core/records/result.hpp"
#include "fields.hpp"

namespace dsanalyze {

template <>
struct Fields<ToolRecord> {
  using R = ToolRecord;
  static constexpr std::tuple list{field("name", &R::name), field("version", &R::version), field("commit", &R::commit)};
};

template <>
struct Fields<Finding> {
  using R = Finding;
  static constexpr std::tuple list{field("code", &R::code), field("severity", &R::severity), field("message", &R::message)};
};

template <>
struct Fields<LoaderStep> {
  using R = LoaderStep;
  static constexpr std::tuple list{field("loader", &R::loader), field("text", &R::text)};
};

template <>
struct Fields<GainRecord> {
  using R = GainRecord;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s), field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("speedup", &R::speedup), field("at_most", &R::at_most), field("next", &R::next)};
};

template <>
struct Fields<AdviceRecord> {
  using R = AdviceRecord;
  static constexpr std::tuple list{field("code", &R::code),           field("text", &R::text),           field("evidence", &R::evidence),
                                   field("steps", &R::steps).newer(), field("file", &R::file).omitted(), field("line", &R::line).omitted(),
                                   field("gain", &R::gain).omitted()};
};

template <>
struct Fields<ProfileResult::Attained> {
  using R = ProfileResult::Attained;
  static constexpr std::tuple list{field("samples_per_s", &R::samples_per_s), field("ci95_samples_per_s", &R::ci95_samples_per_s),
                                   field("by_rates_samples_per_s", &R::by_rates_samples_per_s),
                                   field("ci95_by_rates_samples_per_s", &R::ci95_by_rates_samples_per_s), field("evidence", &R::evidence)};
};

template <>
struct Fields<DatasetCommandResult::Failure> {
  using R = DatasetCommandResult::Failure;
  static constexpr std::tuple list{field("path", &R::path), field("cause", &R::cause)};
};

template <>
struct Fields<DatasetCommandResult::Array> {
  using R = DatasetCommandResult::Array;
  static constexpr std::tuple list{field("dtype", &R::dtype), field("shape", &R::shape)};
};

template <>
struct Fields<DatasetCommandResult> {
  using R = DatasetCommandResult;
  static Json digest(const R& record) { return record.digest; }
  static constexpr std::tuple list{SchemaField{"dsanalyze.dataset/1", "dsanalyze dataset"},
                                   field("tool", &R::tool),
                                   field("command", &R::command),
                                   field("path", &R::path),
                                   field("format", &R::format),
                                   field("samples", &R::samples),
                                   field("bytes", &R::bytes),
                                   field("mean_sample_bytes", &R::mean_sample_bytes),
                                   field("digest", &R::digest),
                                   derived("index_digest", &digest),
                                   field("sizes_sampled", &R::sizes_sampled),
                                   field("content_sample_digest", &R::content_sample_digest).omitted(),
                                   field("labels", &R::labels).omitted(),
                                   field("skipped", &R::skipped).omitted(),
                                   field("already_there", &R::already_there).omitted(),
                                   field("index_file", &R::index_file).omitted(),
                                   field("content_digest", &R::content_digest).omitted(),
                                   field("failed", &R::failed).omitted(),
                                   along(&R::failed, field("failures", &R::failures)),
                                   field("patched", &R::patched).omitted(),
                                   along(&R::patched, field("patched_samples", &R::patched_samples)),
                                   field("damaged_files", &R::damaged_files).omitted(),
                                   field("files", &R::files).omitted(),
                                   field("array", &R::array).omitted(),
                                   field("destination", &R::destination).omitted(),
                                   field("to", &R::to).omitted(),
                                   field("seconds", &R::seconds).omitted(),
                                   field("findings", &R::findings)};
};

}  // namespace dsanalyze
