#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/clock.hpp"
#include "core/records/fields/jobs_fields.hpp"
#include "core/records/fields/profile_fields.hpp"
#include "core/records/fields/ranks_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

void Fields<RateRecord>::check(const JsonObject& object, const RateRecord& rate) {
  if (rate.samples_per_s <= 0) object.fail("samples_per_s", "found 0, expected a rate above 0");
  // Their last digits may differ where the mean was computed apart from the interval.
  const double slack = 1e-9 * rate.samples_per_s;
  const Interval& interval = rate.ci95_samples_per_s;
  if (rate.samples_per_s < interval.low - slack || rate.samples_per_s > interval.high + slack) {
    object.fail("samples_per_s", fmt::format("found {}, expected a rate inside its own interval /ci95_samples_per_s ({} to {})", rate.samples_per_s,
                                             interval.low, interval.high));
  }
}

void Fields<DatasetRecord>::check(const JsonObject& object, const DatasetRecord& dataset) {
  const double expected = dataset.mean_sample_bytes * static_cast<double>(dataset.samples);
  if (std::abs(expected - static_cast<double>(dataset.bytes)) > 0.01 * expected + 1) {
    object.fail("bytes", fmt::format("found {}, which contradicts /samples ({}) times /mean_sample_bytes ({})", dataset.bytes, dataset.samples,
                                     dataset.mean_sample_bytes));
  }
}

void Fields<DistributionRecord>::read_quantiles(JsonObject& object, DistributionRecord& record) {
  const Json& quantiles = object.raw("quantiles");
  if (!quantiles.is_array() || quantiles.size() < 2) object.fail("quantiles", "expected a list of at least two numbers");
  for (const Json& value : quantiles) {
    const double previous = record.quantiles.empty() ? 0 : record.quantiles.back();
    if (!value.is_number() || value.get<double>() < previous) object.fail("quantiles", "expected ascending numbers, none below 0");
    record.quantiles.push_back(value.get<double>());
  }
}

void Fields<ProfileResult>::write_start(Json& object, const ProfileResult& result) {
  object["started_utc"] = result.started_utc.empty() ? Json(nullptr) : Json(result.started_utc);
}

void Fields<ProfileResult>::read_start(JsonObject& object, ProfileResult& result) {
  if (!is_known(object, "started_utc")) return;
  result.started_utc = object.text("started_utc");
  if (!parse_utc(result.started_utc)) object.fail("started_utc", "expected an instant of UTC as \"2026-11-20T21:05:33Z\"");
}

void Fields<ProfileResult>::write_runs(Json& object, const ProfileResult& result) {
  Json runs = value_json(result.runs);
  if (result.ranks.empty()) {
    for (Json& run : runs) {
      for (Json& epoch : run["epochs"]) {
        epoch.erase("peer_hits");
        epoch.erase("peer_bytes");
      }
    }
  }
  object["runs"] = std::move(runs);
}

void Fields<ProfileResult>::read_runs(JsonObject& object, ProfileResult& result) {
  result.runs = read_value<std::vector<RunRecord>>(object, "runs", {});
}

void Fields<ProfileResult>::check(const JsonObject& object, const ProfileResult& result) {
  const bool any_rate = result.ingestion || result.prep || result.cache || result.storage || result.fetch;
  if (!any_rate && result.runs.empty()) object.fail("rates", "found no rate, and no run: expected at least one of G, P, C, S and F, or a run");
}

std::string to_json(const ProfileResult& result) { return document_text(record_json(result)); }

ProfileResult profile_from_json(std::string_view text, const std::string& source) {
  return record_from_json<ProfileResult>(text, source, UnknownKeys::ignored);
}

template struct RecordJson<TrainingRecord>;
template struct RecordJson<JobRecord>;
template struct RecordJson<SharingRecord>;
template struct RecordJson<SearchTrialRecord>;

std::string to_json(const JobRecord& job) { return record_json(job).dump(); }

JobRecord job_from_json(std::string_view text, const std::string& source) { return record_from_json<JobRecord>(text, source, UnknownKeys::refused); }

namespace {

/// "3,17,18": in one text, for a list of hundreds of thousands would take a line each.
std::string samples_text(std::vector<SampleId> samples) {
  std::ranges::sort(samples);
  return fmt::format("{}", fmt::join(samples, ","));
}

/// Ascending numbers; each takes at least two bytes of the text, so that a short file cannot ask for much memory.
std::vector<SampleId> read_sample_numbers(JsonObject& object, std::string_view key) {
  const std::string text = object.text(key);
  std::vector<SampleId> samples;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto refuse = [&] {
    object.fail(key, fmt::format("found something else at byte {}, expected ascending sample numbers as \"3,17,18\"", at - text.data()));
  };
  while (at != end) {
    const bool leading_zero = *at == '0' && at + 1 != end && at[1] != ',';
    SampleId sample = 0;
    const auto [after, error] = std::from_chars(at, end, sample);
    if (leading_zero || error != std::errc() || (!samples.empty() && sample <= samples.back())) refuse();
    samples.push_back(sample);
    at = after;
    if (at == end) break;
    if (*at != ',' || ++at == end) refuse();
  }
  return samples;
}

}  // namespace

void Fields<LostRankRecord>::write_samples(Json& object, const LostRankRecord& record) {
  object["untrained_samples"] = record.untrained.size();
  object["untrained"] = samples_text(record.untrained);
}

void Fields<LostRankRecord>::read_samples(JsonObject& object, LostRankRecord& record) {
  record.untrained = read_sample_numbers(object, "untrained");
  const auto count = static_cast<std::uint64_t>(object.integer("untrained_samples", 0, most_integer));
  if (count != record.untrained.size())
    object.fail("untrained_samples", fmt::format("found {}, but /untrained has {}", count, record.untrained.size()));
}

template struct RecordJson<RankRecord>;
template struct RecordJson<PartitionRecord>;

std::string to_json(const RankRecord& rank) { return record_json(rank).dump(-1, ' ', false, Json::error_handler_t::replace); }

RankRecord rank_from_json(std::string_view text, const std::string& source) {
  return record_from_json<RankRecord>(text, source, UnknownKeys::refused);
}

}  // namespace dsanalyze
