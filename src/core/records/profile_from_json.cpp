#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/text/utc.hpp"
#include "result_json.hpp"

namespace dsanalyze {
namespace {

std::optional<RateRecord> read_rate(JsonObject rates, std::string_view key) {
  if (!is_known(rates, key)) return std::nullopt;
  JsonObject object = rates.object(key);
  RateRecord rate;
  rate.samples_per_s = object.number("samples_per_s", 0, most_number);
  if (rate.samples_per_s <= 0) object.fail("samples_per_s", "found 0, expected a rate above 0");
  rate.bytes_per_s = object.number("bytes_per_s", 0, most_number);
  rate.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", 0, most_number);
  // Their last digits may differ where the mean was computed apart from the interval.
  const double slack = 1e-9 * rate.samples_per_s;
  if (rate.samples_per_s < rate.ci95_samples_per_s.low - slack || rate.samples_per_s > rate.ci95_samples_per_s.high + slack) {
    object.fail("samples_per_s", fmt::format("found {}, expected a rate inside its own interval /ci95_samples_per_s ({} to {})", rate.samples_per_s,
                                             rate.ci95_samples_per_s.low, rate.ci95_samples_per_s.high));
  }
  rate.windows = read_count(object, "windows");
  if (is_known(object, "void_windows")) rate.void_windows = read_count(object, "void_windows");
  if (is_known(object, "shared_windows")) rate.shared_windows = read_count(object, "shared_windows");
  rate.method = object.text("method");
  if (is_known(object, "cache_fraction")) rate.cache_fraction = object.number("cache_fraction", 0, 1);
  return rate;
}

HostRecord read_host(JsonObject object) {
  HostRecord host;
  host.cpu_model = object.text("cpu_model");
  host.cores = object.number("cores", 0, most_number);
  host.cores_online = read_small(object, "cores_online");
  if (object.has("cores_physical")) host.cores_physical = read_small(object, "cores_physical");
  host.calibration_passes_per_s = object.optional_number("calibration_passes_per_s", std::numeric_limits<double>::min(), most_number);
  host.memory_bytes = read_count(object, "memory_bytes");
  host.memory_total_bytes = read_count(object, "memory_total_bytes");
  host.kernel = object.text("kernel");
  host.cgroup_version = read_small(object, "cgroup_version");
  JsonObject storage = object.object("storage");
  host.storage_device = storage.text("device");
  host.storage_filesystem = storage.text("filesystem");
  host.storage_meter = storage.text("meter");
  JsonObject accelerator = object.object("accelerator");
  host.accelerator = accelerator.text("description");
  if (is_known(accelerator, "shares_cores")) host.accelerator_shares_cores = accelerator.boolean("shares_cores");
  return host;
}

DatasetRecord read_dataset(JsonObject object) {
  DatasetRecord dataset;
  dataset.path = object.text("path");
  dataset.format = object.text("format");
  dataset.samples = read_count(object, "samples");
  dataset.bytes = read_count(object, "bytes");
  dataset.mean_sample_bytes = object.number("mean_sample_bytes", 0, most_record_bytes);
  dataset.digest = object.text("digest");
  dataset.content_sample_digest = object.optional_text("content_sample_digest");
  dataset.sizes_sampled = object.boolean("sizes_sampled");
  dataset.subset_samples = read_count(object, "subset_samples");
  dataset.subset_bytes = read_count(object, "subset_bytes");
  const double expected = dataset.mean_sample_bytes * static_cast<double>(dataset.samples);
  if (std::abs(expected - static_cast<double>(dataset.bytes)) > 0.01 * expected + 1) {
    object.fail("bytes", fmt::format("found {}, which contradicts /samples ({}) times /mean_sample_bytes ({})", dataset.bytes, dataset.samples,
                                     dataset.mean_sample_bytes));
  }
  return dataset;
}

EpochRecord read_epoch(JsonObject& object) {
  EpochRecord epoch;
  epoch.epoch = read_count(object, "epoch");
  epoch.seconds = object.number("seconds", 0, most_number);
  epoch.samples = read_count(object, "samples");
  epoch.storage_bytes = read_known_count(object, "storage_bytes");
  epoch.requested_bytes = read_known_count(object, "requested_bytes");
  epoch.cache_hits = read_known_count(object, "cache_hits");
  epoch.cache_misses = read_known_count(object, "cache_misses");
  // Every sample is a hit or a miss. Of several jobs, older records have zeros for what was not known.
  if (epoch.samples > 0 && epoch.cache_hits == 0U && epoch.cache_misses == 0U) epoch.requested_bytes = epoch.cache_hits = epoch.cache_misses = {};
  if (is_known(object, "peer_hits")) epoch.peer_hits = read_count(object, "peer_hits");
  if (is_known(object, "peer_bytes")) epoch.peer_bytes = read_count(object, "peer_bytes");
  epoch.digest = object.text("digest");
  return epoch;
}

std::optional<DistributionRecord> read_distribution(JsonObject& parent, std::string_view key) {
  if (!is_known(parent, key)) return std::nullopt;
  JsonObject object = parent.object(key);
  DistributionRecord record{object.number("mean", 0, most_number), read_count(object, "count"), {}};
  const nlohmann::json& quantiles = object.raw("quantiles");
  if (!quantiles.is_array() || quantiles.size() < 2) object.fail("quantiles", "expected a list of at least two numbers");
  for (const nlohmann::json& value : quantiles) {
    const double previous = record.quantiles.empty() ? 0 : record.quantiles.back();
    if (!value.is_number() || value.get<double>() < previous) object.fail("quantiles", "expected ascending numbers, none below 0");
    record.quantiles.push_back(value.get<double>());
  }
  if (is_known(object, "deviation")) record.deviation = object.number("deviation", 0, most_number);
  return record;
}

OperatorRecord read_operator(JsonObject& object) {
  OperatorRecord record{object.text("name"), object.number("fraction", 0, 1 + 1e-9)};
  if (is_known(object, "seconds_per_sample")) record.seconds_per_sample = object.number("seconds_per_sample", 0, most_number);
  return record;
}

AcceleratorUtilisation read_utilisation(JsonObject object) {
  return {object.number("value", 0, most_number),
          object.number("compute_seconds", 0, most_number),
          object.number("total_seconds", 0, most_number),
          read_count(object, "steps"),
          read_small(object, "accelerators"),
          object.text("formula")};
}

/// "2026-11-20T21:05:33Z"; empty where it is not known.
std::string read_instant(JsonObject& object, std::string_view key) {
  if (!is_known(object, key)) return "";
  std::string text = object.text(key);
  if (!parse_utc(text)) object.fail(key, "expected an instant of UTC as \"2026-11-20T21:05:33Z\"");
  return text;
}

BackgroundLoad read_load(JsonObject object) {
  BackgroundLoad load{object.number("cpu_fraction", 0, 1), {}};
  for (JsonObject& each : object.objects("processes"))
    load.processes.push_back({read_small(each, "pid"), each.text("command"), each.number("cpu_fraction", 0, most_number)});
  return load;
}

FetchedRecord read_fetched(JsonObject object) {
  return {read_count(object, "requested_bytes"), read_count(object, "cache_hits"), read_count(object, "cache_misses")};
}

RunRecord read_run(JsonObject& object) {
  RunRecord run;
  run.name = object.text("name");
  run.samples_per_s = object.number("samples_per_s", 0, most_number);
  run.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", 0, most_number);
  run.epoch_seconds = object.number("epoch_seconds", 0, most_number);
  run.seconds = object.number("seconds", 0, most_number);
  run.storage_bytes = read_known_count(object, "storage_bytes");
  if (object.has("storage_proof")) {
    const std::string proof = object.choice("storage_proof", {"proved", "corroborated", "unproved"});
    run.storage_proof = static_cast<StorageProof>(std::ranges::find(storage_proof_names, proof) - storage_proof_names.begin());
  }
  run.requested_bytes = read_count(object, "requested_bytes");
  run.cache_hits = read_count(object, "cache_hits");
  run.cache_misses = read_count(object, "cache_misses");
  run.samples = read_count(object, "samples");
  run.samples_failed = read_count(object, "samples_failed");
  run.first_batch_seconds = object.number("first_batch_seconds", 0, most_number);
  run.stall_p50_seconds = object.number("stall_p50_seconds", 0, most_number);
  run.stall_p99_seconds = object.number("stall_p99_seconds", 0, most_number);
  run.stall_epoch_boundary_seconds = object.number("stall_epoch_boundary_seconds", 0, most_number);
  run.prefetch_batches = read_small(object, "prefetch_batches");
  run.fetch_concurrency = read_small(object, "fetch_concurrency");
  run.fetch_places = read_small(object, "fetch_places");
  if (object.has("windows")) run.windows = read_count(object, "windows");
  if (object.has("void_windows")) run.void_windows = read_count(object, "void_windows");
  if (object.has("shared_windows")) run.shared_windows = read_count(object, "shared_windows");
  if (is_known(object, "beyond_epochs")) run.beyond_epochs = read_fetched(object.object("beyond_epochs"));
  if (is_known(object, "others")) run.others = read_load(object.object("others"));
  run.slot_bytes = read_count(object, "slot_bytes");
  if (object.has("failures")) {
    for (JsonObject& each : object.objects("failures")) run.failures.push_back({each.text("cause"), read_count(each, "count"), each.text("example")});
  }
  for (JsonObject& each : object.objects("prep_operators")) run.prep_operators.push_back(read_operator(each));
  run.stall_seconds = read_distribution(object, "stall_seconds");
  if (is_known(object, "mlperf_storage_au")) run.mlperf_storage_au = read_utilisation(object.object("mlperf_storage_au"));
  if (is_known(object, "training")) run.training = read_training(object.object("training"));
  for (JsonObject& each : object.objects("epochs")) run.epochs.push_back(read_epoch(each));
  for (JsonObject& each : object.objects("timeline")) {
    run.timeline.push_back({each.number("t_seconds", 0, most_number), each.number("cpu_fraction", 0, most_number), read_count(each, "memory_bytes"),
                            each.number("storage_bytes_per_s", 0, most_number), each.number("cache_hit_fraction", 0, 1)});
  }
  return run;
}

CorePoint read_core_point(JsonObject& object) {
  CorePoint point{read_small(object, "cores"), object.number("samples_per_s", 0, most_number), std::nullopt};
  if (is_known(object, "ci95_samples_per_s")) point.ci95_samples_per_s = read_interval(object, "ci95_samples_per_s", 0, most_number);
  return point;
}

ProfileResult::Distributions read_distributions(JsonObject object) {
  return {read_distribution(object, "sample_bytes"), read_distribution(object, "prep_seconds"), read_distribution(object, "request_seconds")};
}

OrderRecord read_order(JsonObject object) {
  return {object.choice("kind", {"random", "sequential", "shards"}),
          read_small(object, "shuffle_buffer_samples"),
          read_small(object, "readers"),
          object.number("mean_displacement", 0, most_number),
          object.number("rank_correlation", -1.1, 1.1),
          object.number("neighbours", 0, 1),
          object.number("batch_files", 0, most_number)};
}

// Shares are differences of measured times: noise may carry one a little below 0 or above 1.
StallRecord read_stall(JsonObject stalls, std::string_view key) {
  JsonObject object = stalls.object(key);
  return {object.number("seconds_per_epoch", -most_number, most_number), object.number("fraction", -1, 2),
          read_interval(object, "ci95_fraction", -most_number, most_number)};
}

BottleneckRecord read_bottleneck(JsonObject object) {
  return {read_resource(object, "resource"), object.text("detail"), object.boolean("confident"), object.text("reason"), object.text("next")};
}

void read_rates(JsonObject& root, ProfileResult& result) {
  const JsonObject rates = root.object("rates");
  result.ingestion = read_rate(rates, "G");
  result.prep = read_rate(rates, "P");
  result.cache = read_rate(rates, "C");
  result.storage = read_rate(rates, "S");
  result.network = read_rate(rates, "N");
  result.fetch = read_rate(rates, "F");
}

}  // namespace

ProfileResult profile_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  require_schema(root, "dsanalyze.profile/1", "dsanalyze profile");
  ProfileResult result;
  result.tool = read_tool(root.object("tool"));
  result.started_utc = read_instant(root, "started_utc");
  result.host = read_host(root.object("host"));
  result.settings = settings_from_json(root.object("settings"));
  result.dataset = read_dataset(root.object("dataset"));
  read_rates(root, result);
  JsonObject curves = root.object("curves");
  for (JsonObject& point : curves.objects("P_by_cores")) result.prep_by_cores.push_back(read_core_point(point));
  for (JsonObject& point : curves.objects("S_by_request")) {
    result.storage_by_request.push_back(
        {point.number("request_bytes", 0, most_record_bytes), read_small(point, "concurrency"), point.number("bytes_per_s", 0, most_number)});
  }
  if (is_known(root, "distributions")) result.distributions = read_distributions(root.object("distributions"));
  if (is_known(root, "order")) result.order = read_order(root.object("order"));
  for (JsonObject& run : root.objects("runs")) result.runs.push_back(read_run(run));
  read_jobs(root, result);
  read_ranks(root, result);
  const bool any_rate = result.ingestion || result.prep || result.cache || result.storage || result.fetch;
  if (!any_rate && result.runs.empty()) root.fail("rates", "found no rate, and no run: expected at least one of G, P, C, S and F, or a run");
  if (is_known(root, "attained")) result.attained = read_attained(root.object("attained"));
  if (is_known(root, "stalls")) {
    JsonObject stalls = root.object("stalls");
    result.stalls = {read_stall(stalls, "compute"), read_stall(stalls, "prep"), read_stall(stalls, "fetch"), std::nullopt};
    if (is_known(stalls, "interference")) result.stalls->interference = read_stall(stalls, "interference");
  }
  if (is_known(root, "bottleneck")) result.bottleneck = read_bottleneck(root.object("bottleneck"));
  if (is_known(root, "observed")) {
    JsonObject observed = root.object("observed");
    result.observed = {observed.number("samples_per_s", 0, most_number), observed.number("unused_fraction", -most_number, most_number)};
  }
  result.advice = read_advice(root);
  result.findings = read_findings(root);
  result.trusted = root.boolean("trusted");
  return result;
}

}  // namespace dsanalyze
