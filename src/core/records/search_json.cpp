#include "result_json.hpp"
#include "search_fields.hpp"

namespace dsanalyze {

template Json record_json(const SearchResult& result);
template SearchResult read_record(JsonObject object);

}  // namespace dsanalyze
