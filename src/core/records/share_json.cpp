#include "core/records/fields/share_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

std::string to_json(const ShareResult& result) { return document_text(record_json(result)); }

ShareResult share_from_json(std::string_view text, const std::string& source) {
  return record_from_json<ShareResult>(text, source, UnknownKeys::refused);
}

}  // namespace dsanalyze
