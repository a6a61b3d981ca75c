#include <fmt/format.h>

#include "result_json.hpp"

namespace dsanalyze {
namespace {

Json job_epoch_json(const JobEpochRecord& epoch) {
  return {{"epoch", epoch.epoch},
          {"seconds", epoch.seconds},
          {"samples", epoch.samples},
          {"digest", epoch.digest},
          {"samples_prepared", epoch.samples_prepared},
          {"cache_hits", or_null(epoch.cache_hits)},
          {"cache_misses", or_null(epoch.cache_misses)},
          {"requested_bytes", or_null(epoch.requested_bytes)},
          {"storage_bytes", or_null(epoch.storage_bytes)}};
}

Json job_json(const JobRecord& job) {
  Json object = {{"job", job.job},
                 {"end", job.end},
                 {"samples_per_s", job.samples_per_s},
                 {"ci95_samples_per_s", interval_json(job.ci95_samples_per_s)},
                 {"epoch_seconds", job.epoch_seconds},
                 {"seconds", job.seconds},
                 {"samples", job.samples},
                 {"samples_failed", job.samples_failed},
                 {"samples_prepared", job.samples_prepared},
                 {"cache_hits", job.cache_hits},
                 {"cache_misses", job.cache_misses},
                 {"requested_bytes", job.requested_bytes},
                 {"storage_bytes", or_null(job.storage_bytes)},
                 {"first_batch_seconds", job.first_batch_seconds},
                 {"stall_fraction", job.stall_fraction},
                 {"epochs", Json::array()}};
  for (const JobEpochRecord& each : job.epochs) object["epochs"].push_back(job_epoch_json(each));
  if (job.training) object["training"] = training_json(*job.training);
  add_if_known(object, "batch_copy_cpu_seconds", job.batch_copy_cpu_seconds);
  add_if_known(object, "trial", job.trial);
  return object;
}

Json sharing_json(const SharingRecord& sharing) {
  return {{"share", sharing.share},
          {"producers", sharing.producers},
          {"jobs", sharing.jobs},
          {"samples_prepared", sharing.samples_prepared},
          {"preparations_per_sample", sharing.preparations_per_sample},
          {"prefetch_batches", sharing.prefetch_batches},
          {"staged_batches", sharing.staged_batches},
          {"staged_bytes", sharing.staged_bytes},
          {"shared_bytes", sharing.shared_bytes},
          {"taken_over_batches", sharing.taken_over_batches},
          {"late_reports", sharing.late_reports},
          {"departures", sharing.departures},
          {"handover_seconds_per_batch", or_null(sharing.handover_seconds_per_batch)}};
}

Json trial_json(const SearchTrialRecord& trial) {
  return {{"trial", trial.trial},         {"job", trial.job},     {"epochs", trial.epochs}, {"seconds", trial.seconds},
          {"judged_by", trial.judged_by}, {"value", trial.value}, {"end", trial.end}};
}

JobEpochRecord read_job_epoch(JsonObject& object) {
  return {read_count(object, "epoch"),
          object.number("seconds", 0, most_number),
          read_count(object, "samples"),
          object.text("digest"),
          read_count(object, "samples_prepared"),
          read_known_count(object, "cache_hits"),
          read_known_count(object, "cache_misses"),
          read_known_count(object, "requested_bytes"),
          read_known_count(object, "storage_bytes")};
}

JobRecord read_job(JsonObject& object) {
  JobRecord job;
  job.job = read_small(object, "job");
  job.end = object.choice("end", job_ends());
  job.samples_per_s = object.number("samples_per_s", 0, most_number);
  job.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", 0, most_number);
  job.epoch_seconds = object.number("epoch_seconds", 0, most_number);
  job.seconds = object.number("seconds", 0, most_number);
  job.samples = read_count(object, "samples");
  job.samples_failed = read_count(object, "samples_failed");
  job.samples_prepared = read_count(object, "samples_prepared");
  job.cache_hits = read_count(object, "cache_hits");
  job.cache_misses = read_count(object, "cache_misses");
  job.requested_bytes = read_count(object, "requested_bytes");
  job.storage_bytes = read_known_count(object, "storage_bytes");
  job.first_batch_seconds = object.number("first_batch_seconds", 0, most_number);
  job.stall_fraction = object.number("stall_fraction", 0, 1);
  for (JsonObject& each : object.objects("epochs")) job.epochs.push_back(read_job_epoch(each));
  if (is_known(object, "training")) job.training = read_training(object.object("training"));
  if (is_known(object, "batch_copy_cpu_seconds")) job.batch_copy_cpu_seconds = object.number("batch_copy_cpu_seconds", 0, most_number);
  if (is_known(object, "trial")) job.trial = read_small(object, "trial");
  return job;
}

SharingRecord read_sharing(JsonObject object) {
  SharingRecord sharing;
  sharing.share = object.choice("share", {"none", "coordinated"});
  sharing.producers = object.choice("producers", {"jobs", "coordinator"});
  sharing.jobs = read_small(object, "jobs");
  sharing.samples_prepared = read_count(object, "samples_prepared");
  sharing.preparations_per_sample = object.number("preparations_per_sample", 0, most_number);
  sharing.prefetch_batches = read_small(object, "prefetch_batches");
  sharing.staged_batches = read_count(object, "staged_batches");
  sharing.staged_bytes = read_count(object, "staged_bytes");
  sharing.shared_bytes = read_count(object, "shared_bytes");
  sharing.taken_over_batches = read_count(object, "taken_over_batches");
  sharing.late_reports = read_count(object, "late_reports");
  sharing.departures = read_count(object, "departures");
  if (is_known(object, "handover_seconds_per_batch"))
    sharing.handover_seconds_per_batch = object.number("handover_seconds_per_batch", 0, most_number);
  return sharing;
}

SearchTrialRecord read_trial(JsonObject& object) {
  SearchTrialRecord trial;
  trial.trial = read_small(object, "trial");
  trial.job = read_small(object, "job");
  trial.epochs = read_count(object, "epochs");
  trial.seconds = object.number("seconds", 0, most_number);
  trial.judged_by = object.choice("judged_by", {"loss", "samples_per_s"});
  trial.value = object.number("value", 0, most_number);
  trial.end = object.choice("end", job_ends());
  return trial;
}

}  // namespace

void add_jobs(Json& document, const ProfileResult& result) {
  if (result.sharing) document["sharing"] = sharing_json(*result.sharing);
  for (const JobRecord& job : result.jobs) document["jobs"].push_back(job_json(job));
  for (const SearchTrialRecord& trial : result.trials) document["trials"].push_back(trial_json(trial));
}

void read_jobs(JsonObject& root, ProfileResult& result) {
  if (is_known(root, "sharing")) result.sharing = read_sharing(root.object("sharing"));
  if (is_known(root, "jobs"))
    for (JsonObject& job : root.objects("jobs")) result.jobs.push_back(read_job(job));
  if (is_known(root, "trials"))
    for (JsonObject& trial : root.objects("trials")) result.trials.push_back(read_trial(trial));
}

std::string to_json(const JobRecord& job) { return job_json(job).dump(); }

JobRecord job_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  JobRecord job = read_job(root);
  root.finish();
  return job;
}

}  // namespace dsanalyze
