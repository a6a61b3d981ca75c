#include "settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "base/error.hpp"
#include "core/device.hpp"
#include "core/partition/peers.hpp"
#include "core/records/fields/settings_fields.hpp"
#include "result_json.hpp"
#include "sourced_json.hpp"

namespace dsanalyze {
namespace {

constexpr double least_job_speed = 0.001;
constexpr double most_job_speed = 1000;

void require_integer(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) throw UsageError(fmt::format("{}: found {}, expected an integer in [{}, {}]", option, value, low, high));
}

// Both comparisons are false for NaN, which is refused too.
void require_number(std::string_view option, double value, double low, double high) {
  if (!(value >= low && value <= high)) throw UsageError(fmt::format("{}: found {}, expected a number in [{}, {}]", option, value, low, high));
}

void require_rate(std::string_view option, double value, double high) {
  if (!(value > 0 && value <= high)) throw UsageError(fmt::format("{}: found {}, expected a rate above 0 and at most {}", option, value, high));
}

void validate_devices(const ProfileSettings& settings) {
  if (settings.accelerator == AcceleratorKind::emulated || settings.accelerator == AcceleratorKind::cuda) {
    require_rate("--accelerator (samples/s of one accelerator)", settings.accelerator_rate, most_samples_per_s);
  }
  require_integer("--accelerators", settings.accelerators, 1, 1024);
  require_integer("--batch-size", settings.batch_size, 1, 65'536);
  if (settings.observed_rate) require_rate("--observed", *settings.observed_rate, most_samples_per_s);
  if (settings.storage == Seam::emulated) {
    require_rate("--storage (bytes/s of an emulated storage)", settings.storage_bytes_per_s, most_bytes_per_s);
    require_number("--storage (seconds that a request costs)", settings.storage_latency_seconds, 0, 60);
    require_integer("--storage (queue depth)", settings.storage_queue_depth, 1, StorageDeviceState::max_queue_depth);
  }
  require_integer("--io-depth", settings.fetch_concurrency, 1, 1024);
  require_integer("--shuffle-buffer", settings.shuffle_buffer, 0, 1'000'000);
  require_integer("--readers", settings.readers, 1, 256);
  require_number("--max-storage-rate", settings.max_storage_bytes_per_s, 0, most_bytes_per_s);
  require_number("--prep (the GPU's share of a batch)", settings.gpu_share, 0, 1);
  if (settings.prep == Seam::emulated) require_rate("--prep (samples/s of one emulated core)", settings.prep_rate_per_core, most_samples_per_s);
  require_integer("--workers", settings.workers, 0, 4096);
  require_integer("--cores", settings.cores, 0, 4096);
}

void validate_amounts(const ProfileSettings& settings) {
  require_number("--scale", settings.scale, 1, 1e9);
  if (settings.cache_size && settings.cache_size->kind == ByteAmount::Kind::fraction)
    require_number("--cache-size", settings.cache_size->fraction, 0, 1e6);
  if (settings.memory_limit && settings.memory_limit->kind == ByteAmount::Kind::fraction)
    require_number("--memory-limit", settings.memory_limit->fraction, 1e-6, 1e6);
  if (settings.memory_limit && settings.memory_limit->kind == ByteAmount::Kind::bytes && settings.memory_limit->bytes == 0)
    throw UsageError("--memory-limit: found 0 bytes, expected a size such as 2GiB or a share such as 35%");
  if (settings.subset) {
    const bool is_share = settings.subset->kind == ByteAmount::Kind::fraction;
    if (is_share && !(settings.subset->fraction > 0 && settings.subset->fraction <= 1)) {
      throw UsageError(fmt::format("--subset: found {} %, expected more than 0 % and at most 100 % of the dataset", settings.subset->fraction * 100));
    }
    if (!is_share && settings.subset->bytes == 0) throw UsageError("--subset: found 0 bytes, expected a size such as 2GiB or a share such as 10%");
  }
  require_integer("--epochs (the first only warms the cache up)", settings.epochs, 2, 10'000);
  require_number("--time-budget (seconds)", settings.time_budget_seconds, 1, 30.0 * 24 * 3600);
  require_number("--error-budget", settings.error_budget, 0, 1);
}

void validate_jobs(const ProfileSettings& settings) {
  require_integer("--jobs", settings.jobs, 1, ProfileSettings::most_jobs);
  if (settings.share == JobSharing::unified_producer)
    throw UsageError(
        "--share: found unified-producer, expected none, coordinated or dependent; one process that prepares for all is --producers coordinator");
  require_integer("--trials", settings.trials, 0, 10'000);
  if (settings.stop_at_epochs) require_integer("--stop-at (epochs)", *settings.stop_at_epochs, 1, 10'000);
  for (const double speed : settings.job_speeds) require_number("--job-speeds (of the accelerator's rate)", speed, least_job_speed, most_job_speed);
  if (settings.staging_size && settings.staging_size->kind == ByteAmount::Kind::fraction)
    require_number("--staging-size (of the dataset's samples)", settings.staging_size->fraction, 0, 1);
}

void validate_ranks(const ProfileSettings& settings) {
  require_integer("--world", settings.world, 1, most_ranks);
  if (settings.network == Seam::null) throw UsageError("--network: found null, expected real, or emulated:RATE");
  if (settings.network == Seam::emulated) require_rate("--network (bytes/s of an emulated link)", settings.network_bytes_per_s, most_bytes_per_s);
}

void validate_runs(const ProfileSettings& settings) {
  constexpr std::array<std::string_view, 5> known = {"synthetic", "prep", "cached", "fetch", "full"};
  if (settings.runs.empty()) throw UsageError(fmt::format("--runs: found none, expected some of {}", fmt::join(known, ", ")));
  auto next = known.begin();
  for (const std::string& run : settings.runs) {
    const auto place = std::find(known.begin(), known.end(), run);
    if (place == known.end()) throw UsageError(fmt::format("--runs: found '{}', expected some of {}", run, fmt::join(known, ", ")));
    if (place < next) throw UsageError(fmt::format("--runs: '{}' stands twice or out of order; the order is {}", run, fmt::join(known, ", ")));
    next = place + 1;
  }
}

}  // namespace

void ProfileSettings::validate() const {
  if (dataset.empty()) throw UsageError("DATASET: no dataset given; expected a folder or emulated:NAME");
  validate_devices(*this);
  validate_amounts(*this);
  validate_jobs(*this);
  validate_ranks(*this);
  validate_runs(*this);
  if (const std::optional<ModeRule> rule = broken_mode_rule(*this)) {
    throw UsageError(fmt::format("{} does not go together with {}: {}", rule->mode, rule->refused_with, rule->reason));
  }
}

template <>
Json RecordJson<ByteAmount>::write(const ByteAmount& amount) {
  if (amount.kind == ByteAmount::Kind::bytes) return {{"bytes", amount.bytes}};
  return {{"fraction", amount.fraction}};
}

template <>
ByteAmount RecordJson<ByteAmount>::read(JsonObject object) {
  if (object.has("fraction")) return {ByteAmount::Kind::fraction, 0, object.number("fraction", 0, most_number)};
  return {ByteAmount::Kind::bytes, static_cast<Bytes>(object.integer("bytes", 0, most_integer)), 0};
}

template struct RecordJson<ProfileSettings>;

double sum_of_job_speeds(const JobsSettings& settings) {
  if (settings.job_speeds.empty()) return std::max(settings.jobs, 1);
  return std::accumulate(settings.job_speeds.begin(), settings.job_speeds.end(), 0.0);
}

std::string precision_name(Precision precision) { return enum_name(precision); }

std::string to_json(const ProfileSettings& settings) { return record_json(settings).dump(); }

std::vector<std::string> free_settings() { return free_keys<ProfileSettings>(); }

ProfileSettings settings_from_json(std::string_view text, const std::string& source) {
  return record_from_json<ProfileSettings>(text, source, UnknownKeys::refused);
}

}  // namespace dsanalyze
