#include "core/records/fields/settings_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

template <>
Json record_json(const ByteAmount& amount) {
  if (amount.kind == ByteAmount::Kind::bytes) return {{"bytes", amount.bytes}};
  return {{"fraction", amount.fraction}};
}

template <>
ByteAmount read_record(JsonObject object) {
  if (object.has("fraction")) return {ByteAmount::Kind::fraction, 0, object.number("fraction", 0, most_number)};
  return {ByteAmount::Kind::bytes, static_cast<Bytes>(object.integer("bytes", 0, most_integer)), 0};
}

template Json record_json(const ProfileSettings& settings);
template ProfileSettings read_record(JsonObject object);

std::string precision_name(Precision precision) { return enum_name(precision); }

std::string to_json(const ProfileSettings& settings) { return record_json(settings).dump(); }

std::vector<std::string> free_settings() { return free_keys<ProfileSettings>(); }

ProfileSettings settings_from_json(std::string_view text, const std::string& source) {
  return record_from_json<ProfileSettings>(text, source, UnknownKeys::refused);
}

}  // namespace dsanalyze
