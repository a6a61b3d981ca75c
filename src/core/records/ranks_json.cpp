#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/records/fields/ranks_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {
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

template Json record_json(const RankRecord& rank);
template RankRecord read_record(JsonObject object);
template Json record_json(const PartitionRecord& partition);
template PartitionRecord read_record(JsonObject object);

std::string to_json(const RankRecord& rank) { return record_json(rank).dump(-1, ' ', false, Json::error_handler_t::replace); }

RankRecord rank_from_json(std::string_view text, const std::string& source) {
  return record_from_json<RankRecord>(text, source, UnknownKeys::refused);
}

}  // namespace dsanalyze
