#pragma once

#include "core/records/fields/fields.hpp"
#include "result.hpp"
#include "search_result.hpp"

namespace dsanalyze {

// The records that are part of several others; each is instantiated in the source of its own table.

extern template struct RecordJson<ToolRecord>;
extern template struct RecordJson<Finding>;
extern template struct RecordJson<AdviceRecord>;
extern template struct RecordJson<ProfileResult::Attained>;

extern template struct RecordJson<TrainingRecord>;
extern template struct RecordJson<JobRecord>;
extern template struct RecordJson<SharingRecord>;
extern template struct RecordJson<SearchTrialRecord>;
extern template struct RecordJson<RankRecord>;
extern template struct RecordJson<PartitionRecord>;

template <>
Json RecordJson<ByteAmount>::write(const ByteAmount& amount);
template <>
ByteAmount RecordJson<ByteAmount>::read(JsonObject object);
extern template struct RecordJson<ProfileSettings>;
extern template struct RecordJson<SearchResult>;

}  // namespace dsanalyze
