#include "result_json.hpp"

#include "core/records/fields/result_fields.hpp"

namespace dsanalyze {

template Json record_json(const ToolRecord& record);
template ToolRecord read_record(JsonObject object);
template Json record_json(const Finding& record);
template Finding read_record(JsonObject object);
template Json record_json(const AdviceRecord& record);
template AdviceRecord read_record(JsonObject object);
template Json record_json(const ProfileResult::Attained& record);
template ProfileResult::Attained read_record(JsonObject object);

std::string error_json(ErrorKind kind, const std::string& message, int exit_code) {
  return document_text({{"schema", "dsanalyze.error/1"},
                        {"tool", record_json(this_tool())},
                        {"error", {{"kind", enum_name(kind)}, {"message", message}, {"exit_code", exit_code}}}});
}

std::string to_json(const DatasetCommandResult& result) { return document_text(record_json(result)); }

}  // namespace dsanalyze
