#pragma once

#include "core/records/share_result.hpp"
#include "fields.hpp"
#include "jobs_fields.hpp"

namespace dsanalyze {

template <>
struct Fields<ShareTermsRecord> {
  using R = ShareTermsRecord;
  static void write_shape(Json& object, const R& record) { object["shape"] = record.shape; }
  static void read_shape(JsonObject& object, R& record) {
    for (const double each : object.numbers("shape", 1, 8, 0, 9e15)) record.shape.push_back(static_cast<std::int64_t>(each));
  }
  static constexpr std::tuple list{field("jobs", &R::jobs),
                                   field("producers", &R::producers).one_of(enum_names<Producers>),
                                   field("batch_size", &R::batch_size),
                                   field("batches_per_epoch", &R::batches_per_epoch),
                                   field("samples", &R::samples),
                                   field("epochs", &R::epochs),
                                   field("held_batches", &R::held),
                                   field("seed", &R::seed).all_64_bits(),
                                   field("prep", &R::prep),
                                   custom(&write_shape, &read_shape),
                                   field("dtype", &R::dtype).one_of(enum_names<DType>),
                                   field("cache", &R::cache),
                                   field("cache_bytes", &R::cache_bytes),
                                   field("share", &R::share).one_of(share_term_sharings).omitted()};
};

template <>
struct Fields<ShareJobRecord> {
  using R = ShareJobRecord;
  static constexpr std::tuple list{
      field("place", &R::place),
      field("process", &R::process),
      field("first_epoch", &R::first_epoch),
      field("end", &R::end).one_of(names_of_values<JobEnd::left, JobEnd::died, JobEnd::garbage, JobEnd::none, JobEnd::finished>),
      field("batches_taken", &R::batches_taken),
      field("samples_taken", &R::samples_taken),
      field("batches_prepared", &R::batches_prepared),
      field("samples_prepared", &R::samples_prepared),
      field("batches_taken_over", &R::batches_taken_over),
      field("requested_bytes", &R::requested_bytes)};
};

template <>
struct Fields<ShareCommandRecord> {
  using R = ShareCommandRecord;
  static constexpr int most_status = 255;  ///< that a process can end with
  static constexpr std::tuple list{field("job", &R::job),
                                   field("exit_status", &R::exit_status).in(0, most_status),
                                   field("signal", &R::signal).in(0, most_status),
                                   field("attached", &R::attached).omitted(),
                                   field("batches_taken", &R::batches_taken).omitted(),
                                   field("had_all_epochs", &R::had_all_epochs).omitted()};
};

template <>
struct Fields<ShareMemoryRecord> {
  using R = ShareMemoryRecord;
  static constexpr std::tuple list{
      field("prefetch_batches", &R::prefetch_batches), field("staged_batches", &R::staged_batches), field("slot_bytes", &R::slot_bytes),
      field("constant_bytes", &R::constant_bytes),     field("bound_bytes", &R::bound_bytes),       field("shared_bytes", &R::shared_bytes)};
};

template <>
struct Fields<ShareResult> {
  using R = ShareResult;
  static constexpr std::tuple list{SchemaField{"dsanalyze.share/1", "dsanalyze share"},
                                   field("tool", &R::tool),
                                   field("started_utc", &R::started_utc),
                                   group("dataset", within(&R::dataset, field("path", &DatasetRecord::path), field("format", &DatasetRecord::format),
                                                           field("samples", &DatasetRecord::samples), field("bytes", &DatasetRecord::bytes),
                                                           field("digest", &DatasetRecord::digest))),
                                   field("terms", &R::terms),
                                   field("end", &R::end).one_of(share_ends),
                                   field("seconds", &R::seconds),
                                   field("epochs", &R::epochs),
                                   field("samples_prepared", &R::samples_prepared),
                                   field("batches_taken", &R::batches_taken),
                                   field("samples_taken", &R::samples_taken),
                                   field("batches_taken_over", &R::batches_taken_over),
                                   field("requested_bytes", &R::requested_bytes),
                                   field("late_reports", &R::late_reports),
                                   field("refused", &R::refused),
                                   field("memory", &R::memory),
                                   field("dependent", &R::dependent).omitted(),
                                   field("jobs", &R::jobs),
                                   field("commands", &R::commands)};
};

}  // namespace dsanalyze
