#include "core/records/fields/search_fields.hpp"
#include "result_json.hpp"

namespace dsanalyze {

template Json record_json(const SearchResult& result);
template SearchResult read_record(JsonObject object);

}  // namespace dsanalyze
