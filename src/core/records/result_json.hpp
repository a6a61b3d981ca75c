#pragma once

#include "core/records/fields/fields.hpp"
#include "result.hpp"
#include "search_result.hpp"

namespace dsanalyze {

// The records that are part of several others; each is instantiated in the source of its own table.

extern template Json record_json(const ToolRecord& record);
extern template ToolRecord read_record(JsonObject object);
extern template Json record_json(const Finding& record);
extern template Finding read_record(JsonObject object);
extern template Json record_json(const AdviceRecord& record);
extern template AdviceRecord read_record(JsonObject object);
extern template Json record_json(const ProfileResult::Attained& record);
extern template ProfileResult::Attained read_record(JsonObject object);

extern template Json record_json(const TrainingRecord& record);
extern template TrainingRecord read_record(JsonObject object);
extern template Json record_json(const JobRecord& record);
extern template JobRecord read_record(JsonObject object);
extern template Json record_json(const SharingRecord& record);
extern template SharingRecord read_record(JsonObject object);
extern template Json record_json(const SearchTrialRecord& record);
extern template SearchTrialRecord read_record(JsonObject object);
extern template Json record_json(const RankRecord& record);
extern template RankRecord read_record(JsonObject object);
extern template Json record_json(const PartitionRecord& record);
extern template PartitionRecord read_record(JsonObject object);

template <>
Json record_json(const ByteAmount& amount);
template <>
ByteAmount read_record(JsonObject object);
extern template Json record_json(const ProfileSettings& record);
extern template ProfileSettings read_record(JsonObject object);
extern template Json record_json(const SearchResult& record);
extern template SearchResult read_record(JsonObject object);

}  // namespace dsanalyze
