#include "server_fetch.hpp"

#include <algorithm>

namespace dsanalyze {

const char* fetch_part_name(FetchPart part) {
  switch (part) {
    case FetchPart::storage:
      return "storage";
    case FetchPart::cache:
      return "cache";
    case FetchPart::network:
      break;
  }
  return "network";
}

double SourceSeconds::fetch() const { return cache + std::max(network, storage); }

FetchPart SourceSeconds::longest() const {
  if (cache > std::max(network, storage)) return FetchPart::cache;
  return network > storage ? FetchPart::network : FetchPart::storage;
}

SourceSeconds source_seconds(const FetchSources& shares, double cache_rate, double network_rate, double storage_rate) {
  return {shares.cache / cache_rate, shares.network / network_rate, shares.storage / storage_rate};
}

}  // namespace dsanalyze
