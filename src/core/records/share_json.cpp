#include "result_json.hpp"
#include "share_result.hpp"

namespace dsanalyze {
namespace {

constexpr const char* share_schema = "dsanalyze.share/1";
constexpr int most_exit_status = 255;

Json share_terms_json(const ShareTermsRecord& terms) {
  return {{"jobs", terms.jobs},
          {"producers", terms.producers},
          {"batch_size", terms.batch_size},
          {"batches_per_epoch", terms.batches_per_epoch},
          {"samples", terms.samples},
          {"epochs", terms.epochs},
          {"held_batches", terms.held},
          {"seed", terms.seed},
          {"prep", terms.prep},
          {"shape", terms.shape},
          {"dtype", terms.dtype},
          {"cache", terms.cache},
          {"cache_bytes", terms.cache_bytes}};
}

Json share_job_json(const ShareJobRecord& job) {
  return {{"place", job.place},
          {"process", job.process},
          {"first_epoch", job.first_epoch},
          {"end", job.end},
          {"batches_taken", job.batches_taken},
          {"samples_taken", job.samples_taken},
          {"batches_prepared", job.batches_prepared},
          {"samples_prepared", job.samples_prepared},
          {"batches_taken_over", job.batches_taken_over},
          {"requested_bytes", job.requested_bytes}};
}

Json share_command_json(const ShareCommandRecord& command) {
  Json object = {{"job", command.job}, {"exit_status", or_null(command.exit_status)}, {"signal", or_null(command.signal)}};
  add_if_known(object, "attached", command.attached);
  add_if_known(object, "batches_taken", command.batches_taken);
  return object;
}

Json share_memory_json(const ShareMemoryRecord& memory) {
  return {{"prefetch_batches", memory.prefetch_batches}, {"staged_batches", memory.staged_batches}, {"slot_bytes", memory.slot_bytes},
          {"constant_bytes", memory.constant_bytes},     {"bound_bytes", memory.bound_bytes},       {"shared_bytes", memory.shared_bytes}};
}

std::uint32_t read_number(JsonObject& object, std::string_view key) {
  return static_cast<std::uint32_t>(object.integer(key, 0, std::numeric_limits<std::uint32_t>::max()));
}

ShareTermsRecord read_share_terms(JsonObject object) {
  ShareTermsRecord terms;
  terms.jobs = read_number(object, "jobs");
  terms.producers = object.choice("producers", {"jobs", "coordinator"});
  terms.batch_size = read_number(object, "batch_size");
  terms.batches_per_epoch = read_count(object, "batches_per_epoch");
  terms.samples = read_count(object, "samples");
  terms.epochs = read_count(object, "epochs");
  terms.held = read_number(object, "held_batches");
  terms.seed = object.unsigned_integer("seed");
  terms.prep = object.text("prep");
  for (const double each : object.numbers("shape", 1, 8, 0, 9e15)) terms.shape.push_back(static_cast<std::int64_t>(each));
  terms.dtype = object.choice("dtype", {"uint8", "float32"});
  terms.cache = object.text("cache");
  terms.cache_bytes = read_count(object, "cache_bytes");
  return terms;
}

ShareJobRecord read_share_job(JsonObject& object) {
  ShareJobRecord job;
  job.place = read_number(object, "place");
  job.process = object.integer("process", 0, most_integer);
  job.first_epoch = read_count(object, "first_epoch");
  job.end = object.choice("end", share_job_ends());
  job.batches_taken = read_count(object, "batches_taken");
  job.samples_taken = read_count(object, "samples_taken");
  job.batches_prepared = read_count(object, "batches_prepared");
  job.samples_prepared = read_count(object, "samples_prepared");
  job.batches_taken_over = read_count(object, "batches_taken_over");
  job.requested_bytes = read_count(object, "requested_bytes");
  return job;
}

ShareMemoryRecord read_share_memory(JsonObject object) {
  ShareMemoryRecord memory;
  memory.prefetch_batches = read_number(object, "prefetch_batches");
  memory.staged_batches = read_count(object, "staged_batches");
  memory.slot_bytes = read_count(object, "slot_bytes");
  memory.constant_bytes = read_count(object, "constant_bytes");
  memory.bound_bytes = read_count(object, "bound_bytes");
  memory.shared_bytes = read_count(object, "shared_bytes");
  return memory;
}

DatasetRecord read_share_dataset(JsonObject object) {
  DatasetRecord dataset;
  dataset.path = object.text("path");
  dataset.format = object.text("format");
  dataset.samples = read_count(object, "samples");
  dataset.bytes = read_count(object, "bytes");
  dataset.digest = object.text("digest");
  return dataset;
}

std::optional<int> read_known_status(JsonObject& object, std::string_view key) {
  const auto known = read_known_count(object, key);
  if (!known) return std::nullopt;
  if (*known > most_exit_status) object.fail(key, "found more than a process can end with");
  return static_cast<int>(*known);
}

ShareCommandRecord read_share_command(JsonObject& object) {
  ShareCommandRecord command;
  command.job = read_small(object, "job");
  command.exit_status = read_known_status(object, "exit_status");
  command.signal = read_known_status(object, "signal");
  if (is_known(object, "attached")) command.attached = object.boolean("attached");
  command.batches_taken = read_known_count(object, "batches_taken");
  return command;
}

}  // namespace

const std::vector<std::string>& share_job_ends() {
  static const std::vector<std::string> ends = {"left", "died", "put-out", "attached"};
  return ends;
}

const std::vector<std::string>& share_ends() {
  static const std::vector<std::string> ends = {"finished", "left", "commands-ended", "interrupted"};
  return ends;
}

std::string to_json(const ShareResult& result) {
  const DatasetRecord& dataset = result.dataset;
  Json document = {
      {"schema", share_schema},
      {"tool", tool_json(result.tool)},
      {"started_utc", result.started_utc},
      {"dataset",
       {{"path", dataset.path}, {"format", dataset.format}, {"samples", dataset.samples}, {"bytes", dataset.bytes}, {"digest", dataset.digest}}},
      {"terms", share_terms_json(result.terms)},
      {"end", result.end},
      {"seconds", result.seconds},
      {"epochs", result.epochs},
      {"samples_prepared", result.samples_prepared},
      {"batches_taken", result.batches_taken},
      {"samples_taken", result.samples_taken},
      {"batches_taken_over", result.batches_taken_over},
      {"requested_bytes", result.requested_bytes},
      {"late_reports", result.late_reports},
      {"refused", result.refused},
      {"memory", share_memory_json(result.memory)},
      {"jobs", Json::array()},
      {"commands", Json::array()}};
  for (const ShareJobRecord& job : result.jobs) document["jobs"].push_back(share_job_json(job));
  for (const ShareCommandRecord& each : result.commands) document["commands"].push_back(share_command_json(each));
  return document_text(document);
}

ShareResult share_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  require_schema(root, share_schema, "dsanalyze share");
  ShareResult result;
  result.tool = read_tool(root.object("tool"));
  result.started_utc = root.text("started_utc");
  result.dataset = read_share_dataset(root.object("dataset"));
  result.terms = read_share_terms(root.object("terms"));
  result.end = root.choice("end", share_ends());
  result.seconds = root.number("seconds", 0, most_number);
  result.epochs = read_count(root, "epochs");
  result.samples_prepared = read_count(root, "samples_prepared");
  result.batches_taken = read_count(root, "batches_taken");
  result.samples_taken = read_count(root, "samples_taken");
  result.batches_taken_over = read_count(root, "batches_taken_over");
  result.requested_bytes = read_count(root, "requested_bytes");
  result.late_reports = read_count(root, "late_reports");
  result.refused = read_count(root, "refused");
  result.memory = read_share_memory(root.object("memory"));
  for (JsonObject& job : root.objects("jobs")) result.jobs.push_back(read_share_job(job));
  for (JsonObject& each : root.objects("commands")) result.commands.push_back(read_share_command(each));
  root.finish();
  return result;
}

}  // namespace dsanalyze
