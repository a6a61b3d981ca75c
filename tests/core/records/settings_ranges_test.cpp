#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/records/settings.hpp"

using namespace dsanalyze;

namespace {

using Put = std::function<void(ProfileSettings&, double)>;

struct Range {
  std::string option;
  Put put;
  double low, high;
  double below, above;  ///< the nearest that are refused
};

ByteAmount share_of(double fraction) { return {ByteAmount::Kind::fraction, 0, fraction}; }

Range whole_range(std::string option, Put put, double low, double high) { return {std::move(option), std::move(put), low, high, low - 1, high + 1}; }
Range number(std::string option, Put put, double low, double high) {
  return {std::move(option), std::move(put), low, high, std::nextafter(low, -1e300), std::nextafter(high, 1e300)};
}
Range rate_range(std::string option, Put put, double high) { return {std::move(option), std::move(put), 1e-9, high, 0, std::nextafter(high, 1e300)}; }

/// What an option of this name is refused for, or "": it is accepted.
std::string range_refusal(const Range& range, double value) {
  ProfileSettings settings;
  settings.dataset = "photos";
  settings.runs = {"full"};
  range.put(settings, value);
  try {
    settings.validate();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("both ends of the range of every number are accepted, and the next numbers beyond them refused by the option's name") {
  const std::vector<Range> ranges = {
      whole_range(
          "--accelerators", [](auto& s, double value) { s.accelerators = static_cast<int>(value); }, 1, 1024),
      whole_range(
          "--batch-size", [](auto& s, double value) { s.batch_size = static_cast<int>(value); }, 1, 65'536),
      whole_range(
          "--io-depth", [](auto& s, double value) { s.fetch_concurrency = static_cast<int>(value); }, 1, 1024),
      whole_range(
          "--shuffle-buffer", [](auto& s, double value) { s.shuffle_buffer = static_cast<int>(value); }, 0, 1'000'000),
      whole_range(
          "--readers", [](auto& s, double value) { s.readers = static_cast<int>(value); }, 1, 256),
      whole_range(
          "--workers", [](auto& s, double value) { s.workers = static_cast<int>(value); }, 0, 4096),
      whole_range(
          "--cores", [](auto& s, double value) { s.cores = static_cast<int>(value); }, 0, 4096),
      whole_range(
          "--epochs", [](auto& s, double value) { s.epochs = static_cast<int>(value); }, 2, 10'000),
      whole_range(
          "--jobs", [](auto& s, double value) { s.jobs = static_cast<int>(value); }, 1, 64),
      whole_range(
          "--trials", [](auto& s, double value) { s.jobs = 2, s.trials = static_cast<int>(value); }, 0, 10'000),
      whole_range(
          "--stop-at", [](auto& s, double value) { s.jobs = 2, s.trials = 8, s.epochs = 10'000, s.stop_at_epochs = static_cast<int>(value); }, 1,
          9'999),
      whole_range(
          "--world", [](auto& s, double value) { s.world = static_cast<int>(value); }, 1, 4096),
      number(
          "--max-storage-rate", [](auto& s, double value) { s.max_storage_bytes_per_s = value; }, 0, 1e15),
      number(
          "--scale", [](auto& s, double value) { s.scale = value; }, 1, 1e9),
      number(
          "--cache-size", [](auto& s, double value) { s.cache_size = share_of(value); }, 0, 1e6),
      number(
          "--memory-limit", [](auto& s, double value) { s.cache = CacheKind::page, s.memory_limit = share_of(value); }, 1e-6, 1e6),
      number(
          "--time-budget", [](auto& s, double value) { s.time_budget_seconds = value; }, 1, 30.0 * 24 * 3600),
      number(
          "--error-budget", [](auto& s, double value) { s.error_budget = value; }, 0, 1),
      number(
          "--storage", [](auto& s, double value) { s.storage = Seam::emulated, s.storage_bytes_per_s = 1e8, s.storage_latency_seconds = value; }, 0,
          60),
      rate_range(
          "--subset", [](auto& s, double value) { s.subset = share_of(value); }, 1),
      rate_range(
          "--observed", [](auto& s, double value) { s.observed_rate = value; }, 1e9),
      rate_range(
          "--accelerator", [](auto& s, double value) { s.accelerator = AcceleratorKind::emulated, s.accelerator_rate = value; }, 1e9),
      rate_range(
          "--storage", [](auto& s, double value) { s.storage = Seam::emulated, s.storage_bytes_per_s = value; }, 1e15),
      rate_range(
          "--prep", [](auto& s, double value) { s.prep = Seam::emulated, s.prep_rate_per_core = value; }, 1e9),
  };
  for (const Range& range : ranges) {
    CAPTURE(range.option);
    for (const double value : {range.low, range.high}) {
      CAPTURE(value);
      CHECK(range_refusal(range, value).empty());
    }
    for (const double value : {range.below, range.above}) {
      CAPTURE(value);
      CHECK(range_refusal(range, value).starts_with(range.option));
    }
  }
}

TEST_CASE("the ends of what dependent jobs and a network are given are accepted, too") {
  ProfileSettings settings;
  settings.dataset = "photos";
  settings.runs = {"full"};
  settings.jobs = 2;
  settings.share = JobSharing::dependent;
  settings.producers = Producers::coordinator;
  settings.accelerator = AcceleratorKind::emulated;
  settings.accelerator_rate = 2000;
  settings.job_speeds = {0.001, 1000};
  for (const double fraction : {0.0, 1.0}) {
    settings.staging_size = share_of(fraction);
    CHECK_NOTHROW(settings.validate());
  }
  settings.staging_size = share_of(-1e-9);
  CHECK_THROWS_WITH_AS(settings.validate(), doctest::Contains("--staging-size"), UsageError);
  settings.staging_size.reset();
  settings.job_speeds = {0.00099, 1};
  CHECK_THROWS_WITH_AS(settings.validate(), doctest::Contains("--job-speeds"), UsageError);

  ProfileSettings ranks;
  ranks.dataset = "photos";
  ranks.runs = {"full"};
  ranks.world = 2;
  ranks.partition = PartitionMode::partitioned;
  ranks.network = Seam::emulated;
  ranks.network_bytes_per_s = 1e15;
  CHECK_NOTHROW(ranks.validate());
  ranks.network_bytes_per_s = 0;
  CHECK_THROWS_WITH_AS(ranks.validate(), doctest::Contains("--network"), UsageError);
}
