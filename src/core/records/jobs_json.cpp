#include "core/records/fields/jobs_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

template Json record_json(const JobRecord& job);
template JobRecord read_record(JsonObject object);
template Json record_json(const SharingRecord& sharing);
template SharingRecord read_record(JsonObject object);
template Json record_json(const SearchTrialRecord& trial);
template SearchTrialRecord read_record(JsonObject object);

std::string to_json(const JobRecord& job) { return record_json(job).dump(); }

JobRecord job_from_json(std::string_view text, const std::string& source) { return record_from_json<JobRecord>(text, source, UnknownKeys::refused); }

}  // namespace dsanalyze
